"""The program that has failing Stacks tried again, against a simulated API server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from addons.programs import retry_stacks
from addons.programs.kubernetes_api import ApiError, Document

STACKS = "/apis/pulumi.com/v1/namespaces/clusters/stacks"
POD = "/api/v1/namespaces/clusters/pods/shop-workspace-0"
OPERATORS_TEXT = "up failed 3 times; not retrying until the spec or source changes"


def stack(
    *, stalled: str | None = None, last: str | None = None, resync: bool = True
) -> dict[str, Any]:
    """A Stack as the operator leaves it."""
    spec = {"continueResyncOnCommitMatch": True} if resync else {}
    status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "False"}]}
    if stalled is not None:
        condition = {"type": "Stalled", "status": "True", "reason": stalled}
        status["conditions"].append({**condition, "message": OPERATORS_TEXT})
    if last is not None:
        status["lastUpdate"] = {"state": last}
    return {"metadata": {"name": "shop"}, "spec": spec, "status": status}


class Cluster:
    """A simulated API server with one Stack."""

    def __init__(self, stack: Document, refusal: ApiError | None = None) -> None:
        self.stack = stack
        self.refusal = refusal
        self.asked: list[tuple[str, str, Document | None]] = []

    def __call__(self, method: str, path: str, body: Document | None) -> Document:
        if method == "GET":
            assert path.partition("?")[0] == STACKS
            return {"items": [self.stack], "metadata": {}}
        self.asked.append((method, path, body))
        if self.refusal is not None:
            raise self.refusal
        return {}


def test_what_the_operator_gave_up_is_asked_for_again() -> None:
    cluster = Cluster(stack(stalled="UpdateFailed", last="failed"))
    assert retry_stacks.run(cluster) == [f"shop: UpdateFailed: {OPERATORS_TEXT}; is tried again"]
    [(method, path, body)] = cluster.asked
    assert (method, path) == ("PATCH", f"{STACKS}/shop")
    assert body is not None
    # Nothing else of the Stack is changed, and the text is another one each time.
    assert body.keys() == {"metadata"}
    assert body["metadata"].keys() == {"annotations"}
    [(key, text)] = body["metadata"]["annotations"].items()
    assert key == "pulumi.com/reconciliation-request"
    assert re.fullmatch(r"retry-\d{8}T\d{6}Z", text)


def test_a_workspace_that_could_not_be_prepared_gets_another_pod() -> None:
    cluster = Cluster(stack(stalled="WorkspaceFailed", last="succeeded"))
    assert len(retry_stacks.run(cluster)) == 1
    assert cluster.asked == [("DELETE", POD, None)]


def test_a_stack_that_only_people_update_is_only_told_of() -> None:
    cluster = Cluster(stack(stalled="UpdateFailed", last="failed", resync=False))
    assert retry_stacks.run(cluster) == [f"shop: UpdateFailed: {OPERATORS_TEXT}"]
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (stack(last="succeeded"), []),
        (stack(), []),
        ({"metadata": {"name": "shop"}, "spec": {}}, []),
        # The operator is at it: its pauses take minutes.
        (stack(last="failed"), ["shop: its last update failed"]),
    ],
)
def test_the_operator_is_left_to_its_own_tries(given: Document, problems: list[str]) -> None:
    cluster = Cluster(given)
    assert retry_stacks.run(cluster) == problems
    assert cluster.asked == []


def test_a_refusal_is_told_and_a_stack_that_is_gone_is_no_problem() -> None:
    [line] = retry_stacks.run(Cluster(stack(stalled="UpdateFailed"), ApiError(403, "forbidden")))
    assert line.endswith("cannot be tried again: forbidden")
    [line] = retry_stacks.run(Cluster(stack(stalled="WorkspaceFailed"), ApiError(404, "gone")))
    assert line.endswith("is tried again")


def test_a_run_succeeds_only_while_no_stack_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(retry_stacks, "api_server", lambda: Cluster(stack(last="succeeded")))
    assert retry_stacks.main() == 0
    monkeypatch.setattr(retry_stacks, "api_server", lambda: Cluster(stack(last="failed")))
    assert retry_stacks.main() == 1
    assert capsys.readouterr().err == "ERROR: shop: its last update failed\n"
