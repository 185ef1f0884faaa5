"""The stacks of the backend, each a cluster, as Pulumi's CLI tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commands.pulumi_cli import pulumi


class StackError(Exception):
    """The stack has no cluster."""


def names() -> list[str]:
    """The names of all stacks of this project.

    Raises:
        PulumiError: if there is no login, or the backend does not answer.
    """
    return sorted(each["name"] for each in json.loads(pulumi("stack", "ls", "--json")))


def outputs(stack: str) -> Mapping[str, Any]:
    """The outputs of a stack, secret ones in the clear.

    Raises:
        PulumiError: if there is no such stack, or it cannot be decrypted.
        StackError: if there are none.
    """
    text = pulumi("stack", "output", "--json", "--show-secrets", "--stack", stack)
    found: dict[str, Any] = json.loads(text)
    if "kubeconfig" not in found:
        raise StackError(f"{stack} has no cluster: it never came up, or it was destroyed")
    return found


def last_update(stack: str) -> Mapping[str, Any] | None:
    """The newest entry of a stack's history, with `kind`, `result` and `endTime`."""
    text = pulumi("stack", "history", "--json", "--page-size", "1", "--stack", stack)
    history: list[dict[str, Any]] = json.loads(text)
    return history[0] if history else None
