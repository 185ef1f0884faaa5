"""Previews of stacks: what an update would change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commands.errors import CommandError
from commands.pulumi_cli import PulumiError, pulumi

# Each runs the program and its plugins.
AT_A_TIME = 4

# Of a program that failed.
_LAST_LINES = 5
# Operations that change nothing.
_UNCHANGED = frozenset({"same", "read", "refresh"})


class PreviewError(CommandError):
    """The preview failed; the text holds its errors, without what surrounds them."""


def preview(*arguments: str) -> Mapping[str, Any]:
    """Preview an update with these arguments; returns the CLI's `steps`, `changeSummary` and so on.

    Raises:
        PreviewError: if it failed.
    """
    try:
        found: dict[str, Any] = json.loads(pulumi("preview", "--json", *arguments))
    except PulumiError as error:
        raise PreviewError(_errors(error)) from error
    return found


def changes(stack: str, *arguments: str) -> Mapping[str, int]:
    """Preview an update with these arguments; returns operation -> number of resources.

    Raises:
        PreviewError: if it failed.
    """
    counted: Mapping[str, int] = preview("--stack", stack, *arguments)["changeSummary"]
    return {operation: count for operation, count in counted.items() if operation not in _UNCHANGED}


def _errors(error: PulumiError) -> str:
    try:
        told = json.loads(error.output).get("diagnostics", [])
    except ValueError:
        return str(error).strip()
    errors = [each["message"].strip() for each in told if each["severity"] == "error"]
    if not errors:
        # Violations of policies are neither in the JSON nor on standard error.
        return error.said.strip() or (
            "Pulumi tells no error, as when a policy refuses the change: run `pulumi preview`"
        )
    # The engine adds that the program failed.
    reasons = [each for each in errors if "an unhandled error occurred" not in each]
    if not reasons:
        # A program that does not even start says why on its standard error.
        lines = [each["message"].strip() for each in told if each["severity"] == "info#err"]
        reasons = [*lines[-_LAST_LINES:], *errors]
    return "\n".join(each.removeprefix("error: ") for each in reasons)
