"""Takes a snapshot of every volume claim that a schedule selects, and deletes the oldest ones.

Runs in the cluster, in a plain Python image: nothing but the standard library. A claim's old
snapshots are touched only when its new one is ready.
"""

import contextlib
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

SCHEDULE_LABEL = "openstack-kubernetes/schedule"
CLAIM_LABEL = "openstack-kubernetes/claim-uid"
_PROVISIONERS = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
_SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PAGE = 250
_PAUSE_SECONDS = 2.0
_CONFLICT = 409
_NOT_FOUND = 404
# The longest name of an object, less that of a job and the dash between.
_LONGEST_CLAIM = 253 - 63 - 1

Document = dict[str, Any]
Call = Callable[[str, str, Document | None], Document]


class ApiError(Exception):
    """The API server refused something; `status` says how."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run does."""

    schedule: str
    # Makes the snapshots' names: a run that is repeated finds those it made before.
    job: str
    keep: int
    selector: str
    # Empty: all.
    namespaces: tuple[str, ...]
    snapshot_class: str
    driver: str
    wait_seconds: float
    # After that a run is ended.
    longest_run_seconds: float

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Plan":
        """The plan that the CronJob's environment describes."""
        return cls(
            schedule=environment["SCHEDULE"],
            job=environment["JOB"],
            keep=int(environment["KEEP"]),
            selector=environment["SELECTOR"],
            namespaces=tuple(environment["NAMESPACES"].split()),
            snapshot_class=environment["SNAPSHOT_CLASS"],
            driver=environment["DRIVER"],
            wait_seconds=float(environment["WAIT_SECONDS"]),
            longest_run_seconds=float(environment["LONGEST_RUN_SECONDS"]),
        )


def run(plan: Plan, call: Call) -> list[str]:
    """Carry the plan out; every claim that has no new snapshot, and why."""
    problems: list[str] = []
    waiting: dict[str, Document] = {}
    for claim in _claims(plan, call):
        name = claim["metadata"]["namespace"] + "/" + claim["metadata"]["name"]
        try:
            waiting[name] = _take(plan, claim, call)
        except ApiError as error:
            problems.append(f"{name}: {error}")
    print(f"{len(waiting)} snapshots are being taken", flush=True)
    ready = _wait(plan, waiting, call, problems)
    problems += _prune(plan, ready, call)
    return problems


def _claims(plan: Plan, call: Call) -> Iterator[Document]:
    for namespace in plan.namespaces or ("",):
        inside = f"/namespaces/{namespace}" if namespace else ""
        for claim in _list(f"/api/v1{inside}/persistentvolumeclaims", plan.selector, call):
            metadata = claim["metadata"]
            made_by = {metadata.get("annotations", {}).get(key) for key in _PROVISIONERS}
            bound = claim.get("status", {}).get("phase") == "Bound"
            if bound and plan.driver in made_by and "deletionTimestamp" not in metadata:
                yield claim


def _take(plan: Plan, claim: Document, call: Call) -> Document:
    namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
    snapshot: Document = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {
            "namespace": namespace,
            "name": f"{name[:_LONGEST_CLAIM]}-{plan.job}",
            "labels": {SCHEDULE_LABEL: plan.schedule, CLAIM_LABEL: claim["metadata"]["uid"]},
        },
        "spec": {
            "volumeSnapshotClassName": plan.snapshot_class,
            "source": {"persistentVolumeClaimName": name},
        },
    }
    try:
        return call("POST", f"{_SNAPSHOTS}/namespaces/{namespace}/volumesnapshots", snapshot)
    except ApiError as error:
        # This job's pod was started again.
        if error.status != _CONFLICT:
            raise
        return call("GET", _path(snapshot), None)


def _wait(
    plan: Plan, waiting: Mapping[str, Document], call: Call, problems: list[str]
) -> list[Document]:
    """Those that became ready in time; the others become problems."""
    ready: list[Document] = []
    left = dict(waiting)
    end = time.monotonic() + plan.wait_seconds
    while left:
        said: dict[str, str] = {}
        for claim, snapshot in list(left.items()):
            try:
                now = call("GET", _path(snapshot), None)
            except ApiError as error:
                said[claim] = str(error)
                continue
            status = now.get("status") or {}
            said[claim] = (status.get("error") or {}).get("message", "it is not ready")
            if status.get("readyToUse"):
                ready.append(now)
                del left[claim]
        if left and time.monotonic() >= end:
            problems += [f"{claim}: {said[claim]}" for claim in left]
            break
        if left:
            time.sleep(_PAUSE_SECONDS)
    return ready


def _prune(plan: Plan, ready: list[Document], call: Call) -> list[str]:
    """Of each claim with a new snapshot, keep the newest ones; what could not be deleted."""
    problems: list[str] = []
    fresh = {each["metadata"]["labels"][CLAIM_LABEL]: each for each in ready}
    by_claim: dict[str, list[Document]] = {}
    for namespace in sorted({each["metadata"]["namespace"] for each in ready}):
        path = f"{_SNAPSHOTS}/namespaces/{namespace}/volumesnapshots"
        for each in _list(path, f"{SCHEDULE_LABEL}={plan.schedule}", call):
            by_claim.setdefault(each["metadata"]["labels"].get(CLAIM_LABEL, ""), []).append(each)
    for claim, taken in by_claim.items():
        if claim not in fresh:
            continue
        for old in _superfluous(plan, taken, fresh[claim]):
            name = old["metadata"]["namespace"] + "/" + old["metadata"]["name"]
            try:
                call("DELETE", _path(old), None)
                print(f"deleted {name}", flush=True)
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    problems.append(f"{name} could not be deleted: {error}")
    return problems


def _superfluous(plan: Plan, taken: list[Document], fresh: Document) -> list[Document]:
    """All but the newest that are ready, and what an earlier run left half made."""
    newest_first = sorted(taken, key=_created)[::-1]
    good = [each for each in newest_first if (each.get("status") or {}).get("readyToUse")]
    # A run beside this one, by hand for example, may still wait for a younger one.
    over = _created(fresh) - timedelta(seconds=plan.longest_run_seconds)
    bad = [each for each in newest_first if each not in good and _created(each) < over]
    return good[plan.keep :] + bad


def _created(snapshot: Document) -> datetime:
    return datetime.fromisoformat(snapshot["metadata"]["creationTimestamp"])


def _list(path: str, selector: str, call: Call) -> Iterator[Document]:
    token = ""
    while True:
        query = {"labelSelector": selector, "limit": str(_PAGE), "continue": token}
        page = call("GET", f"{path}?{urllib.parse.urlencode(query)}", None)
        yield from page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return


def _path(snapshot: Document) -> str:
    metadata = snapshot["metadata"]
    return f"{_SNAPSHOTS}/namespaces/{metadata['namespace']}/volumesnapshots/{metadata['name']}"


def api_server() -> Call:
    """Calls the cluster's API as the pod's service account."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    context = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))

    def call(method: str, path: str, body: Document | None) -> Document:
        request = urllib.request.Request(
            f"https://{host}:{port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                # Read each time: the kubelet renews it.
                "Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:  # noqa: S310
                document: Document = json.load(answer)
                return document
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["message"]
            raise ApiError(error.code, text or str(error)) from None
        except OSError as error:
            raise ApiError(0, str(error)) from None

    return call


def main() -> int:
    """Run once; the exit status says whether every claim has a new snapshot."""
    try:
        problems = run(Plan.of(os.environ), api_server())
    except ApiError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"ERROR: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
