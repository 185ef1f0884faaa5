"""Updates of the clusters that the operator of the admin cluster runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
# Seconds in which the operator notices it, also while an update is at work, and the API answers.
_PATIENCE = 300
# Seconds: no update takes a day.
_LONGEST = 86400
_PAUSE = 5


class OperatedError(CommandError):
    """The admin cluster does not answer, or has no operator."""


@dataclass(frozen=True)
class _Ended:
    failure: str | None = None


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
        self.admin = admin
        self._objects: Mapping[str, Mapping[str, Any]] = {}
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
            found.stack: document
            for document in documents
            if (found := identity(document, ours)) == Identity(found.stack, ours, place)
        }

    def __contains__(self, stack: str) -> bool:
        return stack in self._objects

    def configuration(self, stack: str) -> Mapping[str, Any]:
        """The keys that its object has."""
        found: Mapping[str, Any] = self._objects[stack]["spec"].get("config", {})
        return found

    def log(self, stack: str) -> str:
        """The command that shows what Pulumi says."""
        return f"`kubectl -n {NAMESPACE} logs {self._name(stack)}-workspace-0 -c pulumi`"

    def request(self, stack: str, configuration: Mapping[str, Any]) -> None:
        """Have the operator set these keys.

        Raises:
            OperatedError: if the admin cluster does not take it.
        """
        now = datetime.now(UTC)
        changes = {
            "metadata": {"annotations": {_REQUEST: f"fleet-{now:%Y%m%dT%H%M%S.%fZ}"}},
            "spec": {"config": dict(configuration)},
        }
        try:
            patiently(objects.merge)(self._api, self._path(stack), changes)
        except httpx.HTTPError as error:
            raise OperatedError(trouble(error)) from error

    def failures(self, stacks: Sequence[str]) -> Mapping[str, str | None]:
        """Wait for the ends of updates that were requested; the reason why each failed, or None."""
        waits = {stack: _Wait() for stack in stacks}

        def all_ended() -> bool:
            for stack, wait in waits.items():
                wait.ended = wait.ended or self._look(stack, wait)
            return all(wait.ended for wait in waits.values())

        until(all_ended, _LONGEST, _PAUSE)
        late = _Ended(f"its update has not ended within {_LONGEST // 3600} hours")
        return {stack: (wait.ended or late).failure for stack, wait in waits.items()}

    def _look(self, stack: str, wait: _Wait) -> _Ended | None:
        """Ask how an update goes; None while it is at work."""
        try:
            answer = self._api.get(self._path(stack))
            if answer.status_code == httpx.codes.NOT_FOUND:
                return _Ended(f"someone has deleted the Stack {self._name(stack)}")
            document = answer.raise_for_status().json()
        except httpx.HTTPError as error:
            # The update does not need this connection, which may be lost for a while.
            return _Ended(f"{self.admin}: {trouble(error)}") if wait.silent > _PATIENCE else None
        wait.answered = time.monotonic()
        return self._result(stack, document, wait)

    def _result(self, stack: str, document: Mapping[str, Any], wait: _Wait) -> _Ended | None:
        # What it is now: someone else may have asked for another update, which includes ours.
        request = document["metadata"].get("annotations", {}).get(_REQUEST, "")
        status = document.get("status", {})
        if status.get("observedReconcileRequest", "") != request:
            if wait.unnoticed < _PATIENCE:
                return None
            return _Ended(
                "the operator does not act: look at its pod, `kubectl -n operator get pods`. When "
                "it is back, it runs the update"
            )
        wait.noticed = time.monotonic()
        for each in status.get("conditions", ()):
            # An update that fails once is tried again.
            if each["type"] == "Stalled" and each["status"] == "True":
                return self._given_up(stack, each, wait)
        last = status.get("lastUpdate", {})
        succeeded = last.get("state") == "succeeded" and last.get("reconcileRequest") == request
        return _Ended() if succeeded else None

    def _given_up(self, stack: str, stalled: Mapping[str, Any], wait: _Wait) -> _Ended | None:
        why = f"the operator has given up ({stalled['reason']}: {stalled['message']})"
        if stalled["reason"] != "WorkspaceFailed":
            return _Ended(f"{why}; see {self.log(stack)}")
        # That of the last pod remains until the next one runs.
        if wait.seconds < _PATIENCE:
            return None
        pod = f"{self._name(stack)}-workspace-0"
        return _Ended(f"{why}; replace its pod: `kubectl -n {NAMESPACE} delete pod {pod}`")

    def _name(self, stack: str) -> str:
        name: str = self._objects[stack]["metadata"]["name"]
        return name

    def _path(self, stack: str) -> str:
        return f"{STACKS}/{self._name(stack)}"


class _Wait:
    """For the end of one update."""

    def __init__(self) -> None:
        self.began = self.answered = self.noticed = time.monotonic()
        self.ended: _Ended | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def unnoticed(self) -> float:
        return time.monotonic() - self.noticed

    @property
    def silent(self) -> float:
        return time.monotonic() - self.answered
