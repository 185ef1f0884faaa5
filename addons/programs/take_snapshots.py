"""Takes a snapshot of every volume claim that a schedule selects, and deletes the oldest ones.

Runs inside the cluster, in a plain Python image with nothing but the standard library. Old
snapshots of a claim are deleted only when its new one is ready.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

from addons.programs.kubernetes_api import (
    ApiError,
    Call,
    Document,
    api_server,
    exit_status,
    listed,
)

SCHEDULE_LABEL = "openstack-kubernetes/schedule"
CLAIM_LABEL = "openstack-kubernetes/claim-uid"
_SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1"
_PAUSE_SECONDS = 2.0
# Longest name of a claim inside a snapshot's name, which has a dash and a job's name behind it.
_LONGEST_CLAIM = 253 - 63 - 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of one run."""

    schedule: str
    # Part of the snapshots' names: a repeated run finds those that it has created before.
    job: str
    keep: int
    selector: str
    # Empty for all namespaces.
    namespaces: tuple[str, ...]
    snapshot_class: str
    driver: str
    wait_seconds: float
    # The time after which Kubernetes ends the run.
    longest_run_seconds: float

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Plan":
        """Return the plan that the CronJob's environment describes."""
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
    """Carry out the plan; return every claim without a new snapshot, and why."""
    problems: list[str] = []
    waiting: dict[str, Document] = {}
    for claim in _claims(plan, call):
        try:
            waiting[_name(claim)] = _take(plan, claim, call)
        except ApiError as error:
            problems.append(f"{_name(claim)}: {error}")
    print(f"{len(waiting)} snapshots are being taken", flush=True)
    ready, not_ready = _wait(plan, waiting, call)
    return [*problems, *not_ready, *_prune(plan, ready, call)]


def _claims(plan: Plan, call: Call) -> Iterator[Document]:
    # A claim does not tell its driver, and may have a volume that a person has made.
    volumes = {
        volume["metadata"]["name"]
        for volume in listed("/api/v1/persistentvolumes", "", call)
        if volume["spec"].get("csi", {}).get("driver") == plan.driver
    }
    for namespace in plan.namespaces or ("",):
        inside = f"/namespaces/{namespace}" if namespace else ""
        for claim in listed(f"/api/v1{inside}/persistentvolumeclaims", plan.selector, call):
            bound = claim.get("status", {}).get("phase") == "Bound"
            leaves = "deletionTimestamp" in claim["metadata"]
            if bound and claim["spec"]["volumeName"] in volumes and not leaves:
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
        # An earlier pod of this job created it.
        if error.status != HTTPStatus.CONFLICT:
            raise
        return call("GET", _path(snapshot), None)


def _wait(
    plan: Plan, waiting: Mapping[str, Document], call: Call
) -> tuple[list[Document], list[str]]:
    """Return the snapshots that become ready in time, and for each other claim what is wrong."""
    ready: list[Document] = []
    left = dict(waiting)
    deadline = time.monotonic() + plan.wait_seconds
    while True:
        problems: dict[str, str] = {}
        for claim, snapshot in left.items():
            try:
                now = call("GET", _path(snapshot), None)
            except ApiError as error:
                problems[claim] = str(error)
                continue
            if _is_ready(now):
                ready.append(now)
            else:
                failure = _status(now).get("error") or {}
                problems[claim] = failure.get("message", "not ready in time")
        left = {claim: left[claim] for claim in problems}
        if not left or time.monotonic() >= deadline:
            return ready, [f"{claim}: {problem}" for claim, problem in problems.items()]
        time.sleep(_PAUSE_SECONDS)


def _prune(plan: Plan, ready: list[Document], call: Call) -> list[str]:
    """Keep the newest snapshots of each claim that has a new one; return failed deletions."""
    problems: list[str] = []
    fresh = {each["metadata"]["labels"][CLAIM_LABEL]: each for each in ready}
    taken: dict[str, list[Document]] = {claim: [] for claim in fresh}
    for namespace in sorted({each["metadata"]["namespace"] for each in ready}):
        path = f"{_SNAPSHOTS}/namespaces/{namespace}/volumesnapshots"
        for each in listed(path, f"{SCHEDULE_LABEL}={plan.schedule}", call):
            claim = each["metadata"]["labels"].get(CLAIM_LABEL)
            if claim in taken:
                taken[claim].append(each)
    for claim, snapshots in taken.items():
        for old in _superfluous(plan, snapshots, fresh[claim]):
            try:
                call("DELETE", _path(old), None)
                print(f"deleted {_name(old)}", flush=True)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    problems.append(f"{_name(old)} cannot be deleted: {error}")
    return problems


def _superfluous(plan: Plan, taken: list[Document], fresh: Document) -> list[Document]:
    """Return all but the newest that are ready, and what an earlier run left unfinished."""
    newest_first = sorted(taken, key=_created)[::-1]
    good = [each for each in newest_first if _is_ready(each)]
    # Another run, started by hand for example, may still be waiting for a younger one.
    abandoned = _created(fresh) - timedelta(seconds=plan.longest_run_seconds)
    bad = [each for each in newest_first if each not in good and _created(each) < abandoned]
    return good[plan.keep :] + bad


def _name(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


def _status(snapshot: Document) -> Document:
    return snapshot.get("status") or {}


def _is_ready(snapshot: Document) -> bool:
    return bool(_status(snapshot).get("readyToUse"))


def _created(snapshot: Document) -> datetime:
    return datetime.fromisoformat(snapshot["metadata"]["creationTimestamp"])


def _path(snapshot: Document) -> str:
    metadata = snapshot["metadata"]
    return f"{_SNAPSHOTS}/namespaces/{metadata['namespace']}/volumesnapshots/{metadata['name']}"


def main() -> int:
    """Run once; return the exit status, 0 if every claim has a new snapshot."""
    return exit_status(lambda: run(Plan.of(os.environ), api_server()))


if __name__ == "__main__":
    sys.exit(main())
