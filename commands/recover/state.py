"""The stack's state, through Pulumi's CLI: its lock, and the operations that are pending."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from commands.previews import preview
from commands.pulumi_cli import PulumiError, last_update, pulumi

_PROVIDER = "openstack:"
_CREATIONS = ("create", "create-replacement")
# Pulumi Cloud refuses to cancel what is over. There, the lock of a run that was killed ends by
# itself after some minutes; what it was creating remains pending.
_NO_LOCK = ("has already completed", "has never been updated")


@dataclass(frozen=True)
class Begun:
    """A resource that a run had requested, or may have; it may exist or not."""

    name: str
    kind: str
    inputs: Mapping[str, Any]

    @staticmethod
    def of(resource: Mapping[str, Any]) -> Begun:
        """The resource, as the state and a preview write it."""
        name = resource["urn"].rsplit("::", 1)[1]
        return Begun(name, resource["type"], resource.get("inputs") or {})


class State:
    """The exported state of one stack.

    Args:
        stack: its name; None for the selected one.
        config_file: its configuration, if that is not next to Pulumi.yaml.

    Everything that needs the CLI may raise a PulumiError, such as for an unknown stack.
    """

    def __init__(self, *, stack: str | None, config_file: Path | None) -> None:
        self._stack = stack
        self._arguments = ["--stack", stack] if stack else []
        self._config_file = ["--config-file", str(config_file)] if config_file else []

    @property
    def name(self) -> str:
        """The stack's name, also of the selected one if it can be read."""
        if self._stack is not None:
            return self._stack
        try:
            return pulumi("stack", "--show-name").strip()
        except PulumiError:
            return "the selected stack"

    @property
    def begun(self) -> list[Begun]:
        """The resources that were being created."""
        return [
            Begun.of(operation["resource"])
            for operation in self._deployment.get("pending_operations") or []
            if operation["type"] == "creating"
        ]

    @cached_property
    def failed_since(self) -> datetime | None:
        """The beginning of the last update if it ended with an error; else None."""
        update = last_update(*self._arguments)
        return (
            datetime.fromisoformat(update["startTime"])
            if update.get("result") == "failed"
            else None
        )

    def planned(self) -> list[Begun]:
        """The resources that the next update would create.

        Raises:
            PreviewError: if the update would be refused.
        """
        steps = preview(*self._arguments, *self._config_file)["steps"]
        return [Begun.of(step["newState"]) for step in steps if step["op"] in _CREATIONS]

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
        """The stack's keys for the OpenStack provider, with secrets in plain text."""
        listed = json.loads(self._pulumi("config", "--json", "--show-secrets", *self._config_file))
        return {
            key.removeprefix(_PROVIDER): entry["value"]
            for key, entry in listed.items()
            if key.startswith(_PROVIDER) and "value" in entry
        }

    def unlock(self) -> None:
        """Remove the lock of the killed run; the state is read only after that.

        A copy from before could miss what a run that was still alive has written since.
        """
        try:
            self._pulumi("cancel", "--yes")
        except PulumiError as refusal:
            if not any(text in str(refusal) for text in _NO_LOCK):
                raise

    @property
    def changed(self) -> bool:
        """True if another run has written the state since it was read."""
        now = json.loads(self._pulumi("stack", "export"))["deployment"]
        # It has the time at which it was written.
        return bool(now.get("manifest") != self._deployment.get("manifest"))

    def refuse_changed(self) -> None:
        """Raise a PulumiError if another run has written the state since it was read."""
        if self.changed:
            raise PulumiError(
                f"another run has changed the state of {self.name} meanwhile: let it end, then run "
                "this again"
            )

    def forget_begun(self) -> None:
        """Write the state back without its pending operations.

        An interrupted update or deletion needs no record: its resource is in the state, and the
        next run repeats it.

        Raises:
            PulumiError: also if another run has written it since it was read.
        """
        self.refuse_changed()
        self._deployment["pending_operations"] = []
        self._pulumi("stack", "import", stdin=json.dumps(self._exported))

    def _pulumi(self, *arguments: str, stdin: str | None = None) -> str:
        return pulumi(*arguments, *self._arguments, stdin=stdin)
