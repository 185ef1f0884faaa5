"""Has Pulumi's operator try again what it has given up, and says which Stacks are failing.

Runs inside the cluster, in a plain Python image with nothing but the standard library. The operator
gives up a Stack whose update has failed a few times within minutes, until its specification or an
annotation changes, and a workspace that could not be prepared, until its pod is a new one.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus

from addons.programs.kubernetes_api import (
    ApiError,
    Call,
    Document,
    api_server,
    exit_status,
    listed,
)

NAMESPACE = "clusters"
REQUEST = "pulumi.com/reconciliation-request"

_STACKS = f"/apis/pulumi.com/v1/namespaces/{NAMESPACE}/stacks"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def run(call: Call) -> list[str]:
    """Ask for another try of what was given up; return a line about each Stack that fails."""
    return [line for stack in listed(_STACKS, "", call) for line in _failing(stack, call)]


def _failing(stack: Document, call: Call) -> Iterator[str]:
    name, status = stack["metadata"]["name"], stack.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    stalled = conditions.get("Stalled", {"status": "False"})
    if stalled["status"] == "True":
        reason = stalled["reason"]
        yield f"{name}: {reason}: {stalled['message']}{_tried_again(stack, reason, call)}"
    # While it is tried again, the result of the last time remains.
    elif status.get("lastUpdate", {}).get("state") == "failed":
        yield f"{name}: its last update failed"


def _tried_again(stack: Document, reason: str, call: Call) -> str:
    """Ask for another try, unless only people start updates of this Stack."""
    if not stack["spec"].get("continueResyncOnCommitMatch"):
        return ""
    name = stack["metadata"]["name"]
    try:
        if reason == "WorkspaceFailed":
            call("DELETE", f"{_PODS}/{name}-workspace-0", None)
        else:
            annotations = {REQUEST: f"retry-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"}
            call("PATCH", f"{_STACKS}/{name}", {"metadata": {"annotations": annotations}})
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            return f"; cannot be tried again: {error}"
    return "; is tried again"


def main() -> int:
    """Run once; return the exit status, 0 if no Stack fails."""
    return exit_status(lambda: run(api_server()))


if __name__ == "__main__":
    sys.exit(main())
