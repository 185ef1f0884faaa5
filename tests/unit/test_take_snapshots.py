"""The program that takes scheduled snapshots, against a simulated API server."""

from __future__ import annotations

import urllib.parse
from dataclasses import replace
from typing import Any

import pytest

from addons.programs import take_snapshots
from addons.programs.kubernetes_api import ApiError, Document
from addons.programs.take_snapshots import CLAIM_LABEL, SCHEDULE_LABEL, Plan, run

DRIVER = "cinder.csi.openstack.org"
PLAN = Plan(
    schedule="nightly",
    job="nightly-3",
    keep=2,
    selector="tier=data",
    namespaces=(),
    snapshot_class="cinder",
    driver=DRIVER,
    wait_seconds=0.0,
    longest_run_seconds=3600.0,
)


class Cluster:
    """A simulated API server with claims and snapshots, two on each page."""

    def __init__(self) -> None:
        self.claims: list[Document] = []
        self.volumes: list[Document] = []
        self.snapshots: dict[str, Document] = {}
        self.never_ready: set[str] = set()
        self.refused: dict[str, ApiError] = {}
        self.selectors: list[str] = []

    def claim(
        self, namespace: str, name: str, *, driver: str = DRIVER, phase: str = "Bound"
    ) -> None:
        uid = f"uid-{namespace}-{name}"
        bound = phase == "Bound"
        self.claims.append(
            {
                "metadata": {"namespace": namespace, "name": name, "uid": uid},
                "spec": {"volumeName": f"volume-of-{uid}"} if bound else {},
                "status": {"phase": phase},
            }
        )
        if bound:
            volume = {"name": f"volume-of-{uid}", "namespace": ""}
            self.volumes.append({"metadata": volume, "spec": {"csi": {"driver": driver}}})

    def taken(self, namespace: str, claim: str, day: int, *, ready: bool = True) -> None:
        self.snapshots[f"{namespace}/{claim}-nightly-{day}"] = {
            "metadata": {
                "namespace": namespace,
                "name": f"{claim}-nightly-{day}",
                "creationTimestamp": f"2026-11-{day:02}T02:30:00Z",
                "labels": {SCHEDULE_LABEL: "nightly", CLAIM_LABEL: f"uid-{namespace}-{claim}"},
            },
            "status": {"readyToUse": ready},
        }

    def call(self, method: str, path: str, body: Document | None) -> Document:
        path, _, query = path.partition("?")
        words = path.split("/")
        namespace = words[words.index("namespaces") + 1] if "namespaces" in words else ""
        if refusal := self.refused.get(f"{method} {namespace}"):
            raise refusal
        if query:
            asked = dict(urllib.parse.parse_qsl(query))
            self.selectors.append(asked.get("labelSelector", ""))
            every = {
                "persistentvolumeclaims": self.claims,
                "persistentvolumes": self.volumes,
                "volumesnapshots": [*self.snapshots.values()],
            }[words[-1]]
            found = [e for e in every if namespace in ("", e["metadata"]["namespace"])]
            start = int(asked.get("continue", 0))
            more = str(start + 2) if len(found) > start + 2 else ""
            return {"items": found[start : start + 2], "metadata": {"continue": more}}
        if method == "POST":
            return self._create(body or {})
        name = f"{namespace}/{words[-1]}"
        if name not in self.snapshots:
            raise ApiError(404, "not found")
        return self.snapshots.pop(name) if method == "DELETE" else self.snapshots[name]

    def _create(self, snapshot: Document) -> Document:
        metadata = snapshot["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        if name in self.snapshots:
            raise ApiError(409, "already exists")
        ready = name not in self.never_ready
        status: dict[str, Any] = {"readyToUse": ready}
        if not ready:
            status["error"] = {"message": "the quota is used up"}
        created = {**metadata, "creationTimestamp": "2026-11-21T02:30:00Z"}
        self.snapshots[name] = {**snapshot, "metadata": created, "status": status}
        return self.snapshots[name]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    for name in ("a", "b", "c"):
        made.claim("shop", name)
    return made


def test_every_claim_of_the_driver_gets_a_snapshot(cluster: Cluster) -> None:
    cluster.claim("shop", "other", driver="nfs.csi.example.org")
    cluster.claim("shop", "pending", phase="Pending")
    assert run(PLAN, cluster.call) == []
    assert set(cluster.snapshots) == {f"shop/{name}-nightly-3" for name in ("a", "b", "c")}
    one = cluster.snapshots["shop/a-nightly-3"]
    assert one["spec"]["source"] == {"persistentVolumeClaimName": "a"}
    assert one["spec"]["volumeSnapshotClassName"] == "cinder"
    assert cluster.selectors[:3] == ["", "", "tier=data"]


def test_a_volume_of_a_disk_of_a_node_has_no_driver(cluster: Cluster) -> None:
    cluster.claim("shop", "local")
    cluster.volumes[-1]["spec"] = {"local": {"path": "/data"}}
    assert run(PLAN, cluster.call) == []
    assert "shop/local-nightly-3" not in cluster.snapshots


def test_the_newest_snapshots_of_each_claim_are_kept(cluster: Cluster) -> None:
    for day in range(10, 15):
        cluster.taken("shop", "a", day)
    assert run(PLAN, cluster.call) == []
    left = sorted(name for name in cluster.snapshots if "/a-" in name)
    assert left == ["shop/a-nightly-14", "shop/a-nightly-3"]


def test_nothing_is_deleted_for_a_claim_whose_snapshot_failed(cluster: Cluster) -> None:
    for day in range(10, 15):
        cluster.taken("shop", "a", day)
    cluster.never_ready.add("shop/a-nightly-3")
    assert run(PLAN, cluster.call) == ["shop/a: the quota is used up"]
    assert sum("/a-" in name for name in cluster.snapshots) == 6


def test_the_next_good_run_deletes_what_a_failed_run_left(cluster: Cluster) -> None:
    cluster.taken("shop", "a", 14, ready=False)
    cluster.taken("shop", "a", 13)
    assert run(PLAN, cluster.call) == []
    left = sorted(name for name in cluster.snapshots if "/a-" in name)
    assert left == ["shop/a-nightly-13", "shop/a-nightly-3"]


def test_a_snapshot_that_another_run_waits_for_stays(cluster: Cluster) -> None:
    # Started by hand a moment ago, and slow.
    cluster.taken("shop", "a", 21, ready=False)
    for day in (12, 13, 14):
        cluster.taken("shop", "a", day)
    assert run(PLAN, cluster.call) == []
    left = sorted(name for name in cluster.snapshots if "/a-" in name)
    assert left == ["shop/a-nightly-14", "shop/a-nightly-21", "shop/a-nightly-3"]


def test_snapshots_of_a_deleted_claim_stay(cluster: Cluster) -> None:
    for day in range(10, 15):
        cluster.taken("shop", "deleted", day)
    assert run(PLAN, cluster.call) == []
    assert sum("/deleted-" in name for name in cluster.snapshots) == 5


def test_a_restarted_pod_takes_no_second_snapshot(cluster: Cluster) -> None:
    assert run(PLAN, cluster.call) == []
    before = dict(cluster.snapshots)
    assert run(PLAN, cluster.call) == []
    assert cluster.snapshots == before


def test_only_the_named_namespaces_are_searched(cluster: Cluster) -> None:
    cluster.claim("lab", "d")
    assert run(replace(PLAN, namespaces=("lab",)), cluster.call) == []
    assert set(cluster.snapshots) == {"lab/d-nightly-3"}


def test_one_refusal_does_not_prevent_the_other_snapshots(cluster: Cluster) -> None:
    cluster.claim("locked", "d")
    cluster.refused["POST locked"] = ApiError(403, "exceeded quota")
    assert run(PLAN, cluster.call) == ["locked/d: exceeded quota"]
    assert len(cluster.snapshots) == 3


def test_names_are_never_too_long(cluster: Cluster) -> None:
    cluster.claim("shop", "x" * 253)
    long = replace(PLAN, job="j" * 63)
    assert run(long, cluster.call) == []
    assert max(len(name.partition("/")[2]) for name in cluster.snapshots) == 253


def test_the_plan_is_read_from_the_environment() -> None:
    plan = Plan.of(
        {
            "SCHEDULE": "nightly",
            "JOB": "nightly-3",
            "KEEP": "2",
            "SELECTOR": "tier=data",
            "NAMESPACES": "",
            "SNAPSHOT_CLASS": "cinder",
            "DRIVER": DRIVER,
            "WAIT_SECONDS": "0",
            "LONGEST_RUN_SECONDS": "3600",
        }
    )
    assert plan == PLAN


def test_a_failure_sets_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Plan, "of", lambda _: PLAN)
    monkeypatch.setattr(take_snapshots, "api_server", lambda: None)
    monkeypatch.setattr(take_snapshots, "run", lambda *_: ["shop/a: no"])
    assert take_snapshots.main() == 1
    assert "ERROR: shop/a: no" in capsys.readouterr().err
