"""Updates of the clusters that the operator of the admin cluster runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from commands.errors import CommandError
from commands.fleet import objects
from commands.fleet.clusters import trouble
from commands.fleet.stack_objects import NAMESPACE, STACKS, Identity, backend, identity
from commands.fleet.stacks import administrator
from commands.kubernetes_api import patiently
from commands.pulumi_cli import project
from commands.waiting import until

# Of the updates that it starts, in their history.
AGENT = "pulumi-kubernetes-operator/"
# The operator runs an update for each new value of this annotation.
_REQUEST = "pulumi.com/reconciliation-request"
# Seconds for the operator to notice; it does so at once, also while an update is at work.
_NOTICED = 300
# Seconds: no update takes a day.
_FINISHED = 86400
_PAUSE = 5


class OperatedError(CommandError):
    """The admin cluster does not answer, or has no operator."""


class Operated:
    """The clusters of this project and backend that the operator runs."""

    def __init__(self, admin: str | None, kubeconfig: Path | None) -> None:
        """Ask the admin cluster.

        Args:
            admin: its stack; without one, no operator runs any.
            kubeconfig: a kubeconfig of it; without it, that of its stack.

        Raises:
            OperatedError: if it does not answer, or has no operator.
            OSError, PulumiError, StackError, KubeconfigError: if nothing tells a way into it.
        """
        self._objects: Mapping[str, str] = {}
        if admin is None:
            return
        self._api = administrator(admin, kubeconfig).client()
        try:
            answer = self._api.get(STACKS)
            if answer.status_code == httpx.codes.NOT_FOUND:
                raise OperatedError(f"{admin} has no operator: leave out `--admin`")
            documents = answer.raise_for_status().json()["items"]
        except httpx.HTTPError as error:
            raise OperatedError(f"{admin}: {trouble(error)}") from error
        ours, place = project(), backend()
        self._objects = {
            found.stack: document["metadata"]["name"]
            for document in documents
            if (found := identity(document, ours)) == Identity(found.stack, ours, place)
        }

    def __contains__(self, stack: str) -> bool:
        return stack in self._objects

    def log(self, stack: str) -> str:
        """The command that shows what Pulumi says."""
        return f"`kubectl -n {NAMESPACE} logs {self._objects[stack]}-workspace-0 -c pulumi`"

    def request(self, stack: str, configuration: Mapping[str, Any]) -> str:
        """Have the operator set these keys; returns the name of the request.

        Raises:
            OperatedError: if the admin cluster does not take it.
        """
        name = f"fleet-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        changes = {
            "metadata": {"annotations": {_REQUEST: name}},
            "spec": {"config": dict(configuration)},
        }
        try:
            patiently(objects.merge)(self._api, self._path(stack), changes)
        except httpx.HTTPError as error:
            raise OperatedError(trouble(error)) from error
        return name

    def failure(self, stack: str, request: str) -> str | None:
        """Wait for the end of the update that was requested; returns why it failed, or None."""

        def noticed() -> bool:
            return bool(self._status(stack).get("observedReconcileRequest") == request)

        def ended() -> Mapping[str, Any]:
            last: Mapping[str, Any] = self._status(stack).get("lastUpdate", {})
            return last if last.get("reconcileRequest") == request else {}

        if not until(noticed, _NOTICED, _PAUSE):
            return "the operator does not act: look at its pod, `kubectl -n operator get pods`"
        if until(ended, _FINISHED, _PAUSE).get("state") == "succeeded":
            return None
        return f"its update failed: {self.log(stack)} says why"

    def _status(self, stack: str) -> Mapping[str, Any]:
        try:
            answer = self._api.get(self._path(stack)).raise_for_status()
        except httpx.HTTPError:
            # The update does not need this connection, which may be lost for a moment.
            return {}
        found: Mapping[str, Any] = answer.json().get("status", {})
        return found

    def _path(self, stack: str) -> str:
        return f"{STACKS}/{self._objects[stack]}"
