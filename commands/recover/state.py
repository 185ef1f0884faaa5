"""The stack's state, by Pulumi's CLI: its lock, and what a run had begun when it was killed."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

_PROVIDER = "openstack:"


@dataclass(frozen=True)
class Begun:
    """A resource that a run had begun to make; whether it exists, nobody wrote down."""

    name: str
    kind: str
    inputs: Mapping[str, Any]


class PulumiError(Exception):
    """The CLI failed; the text holds its words."""


class State:
    """The exported state of one stack.

    Args:
        stack: its name; the selected one if None.
        config_file: its configuration, if it is not beside Pulumi.yaml.

    Whatever needs the CLI raises a PulumiError: there is no such stack, or it cannot be reached.
    """

    def __init__(self, *, stack: str | None, config_file: Path | None) -> None:
        self.name = stack or "the selected stack"
        self._arguments = ["--stack", stack] if stack else []
        self._config_file = ["--config-file", str(config_file)] if config_file else []

    @property
    def begun(self) -> list[Begun]:
        """What was being made."""
        return [
            Begun(each["urn"].rsplit("::", 1)[1], each["type"], each.get("inputs") or {})
            for operation in self._deployment.get("pending_operations") or []
            if operation["type"] == "creating"
            for each in [operation["resource"]]
        ]

    @property
    def known(self) -> Mapping[str, set[str]]:
        """The ids that the state holds, by type."""
        ids: dict[str, set[str]] = defaultdict(set)
        for each in self._deployment.get("resources") or []:
            ids[each["type"]].add(each.get("id", ""))
        return ids

    @cached_property
    def _exported(self) -> dict[str, Any]:
        exported: dict[str, Any] = json.loads(self._pulumi("stack", "export"))
        return exported

    @property
    def _deployment(self) -> dict[str, Any]:
        deployment: dict[str, Any] = self._exported["deployment"]
        return deployment

    def provider_config(self) -> dict[str, str]:
        """What the stack's configuration says to the OpenStack provider, secrets in the clear."""
        listed = json.loads(self._pulumi("config", "--json", "--show-secrets", *self._config_file))
        return {
            key.removeprefix(_PROVIDER): entry["value"]
            for key, entry in listed.items()
            if key.startswith(_PROVIDER) and "value" in entry
        }

    def unlock(self) -> None:
        """Take the lock of the killed run away; the state is read only after that.

        An earlier copy could be older than what a run that was still alive has written since.
        """
        self._pulumi("cancel", "--yes")
        self.__dict__.pop("_exported", None)

    def forget_begun(self) -> None:
        """Write the state back without its notes of what was being done.

        A change or a deletion that was cut off needs no note: its resource is in the state, and
        the next run does it again.
        """
        self._deployment["pending_operations"] = []
        self._pulumi("stack", "import", stdin=json.dumps(self._exported))

    def _pulumi(self, *arguments: str, stdin: str | None = None) -> str:
        result = subprocess.run(  # noqa: S603 - the CLI, as the operator runs it
            ["pulumi", *arguments, *self._arguments, "--non-interactive"],  # noqa: S607
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise PulumiError(f"pulumi {' '.join(arguments)}: {result.stderr or result.stdout}")
        return result.stdout
