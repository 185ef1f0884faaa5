"""An operator makes, scales, repairs, upgrades and destroys other clusters (`make lab-operator`).

The commands are those of the walk-through in docs/fleet.md, as they are written. The lab cannot
download the operator: its chart and the archive of its image must be in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from addons import operator
from bench.figures import Figures, seconds, timed
from commands.private_file import write_private
from lab import image, program_image, settings
from lab.cloud import layout, namespace
from lab.cluster import Cluster, is_ready, left_in_project, openstack, run
from lab.image import archives, versions
from lab.until import until
from tests.lab import needs
from tests.lab.needs import Needs
from tests.lab.object_store import ObjectStore
from tests.lab.walk import AdminCluster, Walk

NEEDS = Needs((operator.CHART.name,), ("operator",))

WORKER = "admin-worker-0"
PORT = 7482
SIZE = {"gateways": 1, "control_planes": 1, "workers": 1}
NEW, OLD = versions.KUBERNETES_RELEASES
# Between two repairs: the shortest that the operator keeps.
RESYNC = 60
# More than by hand, for the operator's part.
LONGEST_MORE = 60
LONGEST_MAKING, LONGEST_HEALING, LONGEST_CHANGE = 900, 180, 900


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The bucket with the state of the other cluster."""
    NEEDS.require()
    with ObjectStore(tmp_path_factory.mktemp("store"), PORT + 1) as made:
        yield made


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with the lab's own charts and the operator's."""
    return needs.every_chart(tmp_path_factory.mktemp("charts"))


@pytest.fixture(scope="module")
def by_hand() -> list[float]:
    """The seconds that a cluster of the same size took by `pulumi up`."""
    return []


@pytest.fixture(scope="module")
def walk(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """Where the commands of the walk-through are run."""
    return Walk(tmp_path_factory.mktemp("checkout"), store)


@pytest.fixture(scope="module")
def hub(walk: Walk, charts: Path, by_hand: list[float]) -> Iterator[Cluster]:
    """The admin cluster, with the images on its worker that it needs. It leaves nothing."""
    keys = settings.cluster(image=image.ensure([OLD, NEW]), **SIZE)
    addons = {**keys["addons"], "chartDirectory": str(charts)}
    # On the worker, an update of each of the others may run at the same time.
    more = {"kubernetesVersion": OLD, "worker": {"flavor": "lab.2c4g"}, "addons": addons}
    made = AdminCluster(walk, {**keys, **more})
    try:
        by_hand.append(seconds(lambda: walk.step("The admin cluster")))
        files = (program_image.build(), archives.FETCHED / "operator.tar", archives.python())
        with served(*files) as urls:
            for url in urls:
                fetch = f"curl --silent --fail {url} | sudo ctr -n k8s.io images import -"
                made.ssh(WORKER, f"set -o pipefail; {fetch}")
        walk.step("The operator in it")
        yield made
    finally:
        made.destroy()
    assert left_in_project() == {}


@contextmanager
def served(*files: Path) -> Iterator[list[str]]:
    """URLs at which the machines of the lab get these files."""
    assert len({file.name for file in files}) == len(files)
    command = ["python3", "-m", "http.server", "--bind", layout.API, str(PORT)]
    folder = Path(os.path.commonpath(files))
    with subprocess.Popen(
        namespace.enter([*command, "--directory", str(folder)]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        base = f"http://{layout.API}:{PORT}"
        try:
            until(lambda: run("curl", "-sI", base, check=False), "the server of the images", 60)
            yield [f"{base}/{file.relative_to(folder)}" for file in files]
        finally:
            server.terminate()


# What the clusters of the lab need in addition: the charts are elsewhere in the image.
LAB = f"""
pulumi config set --path addons.chartDirectory {program_image.CHART_FOLDER}
pulumi config set deletionProtection true
"""


class Other:
    """Another cluster, as those who run the fleet see it."""

    def __init__(self, name: str, hub: Cluster, walk: Walk) -> None:
        self.name = name
        self.hub = hub
        self.walk = walk

    def fleet(self, *words: str) -> str:
        return self.walk.run(".venv/bin/python", "-m", "commands.fleet", *words)

    def add(self, resync: int) -> None:
        """Let the operator run it."""
        self.fleet("add", self.name, "--image", program_image.NAME, "--resync", str(resync))

    def object(self) -> dict[str, Any]:
        """The Stack, empty if there is none."""
        words = ("get", "stack", self.name, "--ignore-not-found", "-o", "json")
        found: dict[str, Any] = json.loads(self.kubectl(*words) or "{}")
        return found

    def last_update(self) -> dict[str, Any]:
        """The operator's record of the last update, empty before the first."""
        last: dict[str, Any] = self.object().get("status", {}).get("lastUpdate", {})
        return last

    def kubectl(self, *words: str) -> str:
        """Ask the admin cluster, in the namespace of the Stacks."""
        return self.hub.kubectl("-n", operator.CLUSTERS, *words)

    def said(self) -> str:
        """The last lines of what Pulumi said in the workspace."""
        return self.kubectl("logs", f"{self.name}-workspace-0", "-c", "pulumi", "--tail=200")

    def updated(self) -> bool:
        """True if the present configuration is applied; an update that failed is an error."""
        status = self.object().get("status", {})
        last = status.get("lastUpdate", {})
        if any(c["type"] == "Stalled" for c in status.get("conditions", [])):
            pytest.fail(f"the operator has given up: {last.get('message')}")
        assert last.get("state") != "failed", last.get("message")
        return bool(last.get("generation") == self.object()["metadata"]["generation"])

    def wait_for_update_after(self, update: str) -> None:
        """Wait until another update than this one was the last, and ended well."""

        def ended() -> bool:
            last = self.last_update()
            return bool(last["name"] != update and last["state"] == "succeeded")

        until(ended, "an update that succeeds", LONGEST_CHANGE)

    def stalled(self) -> str | None:
        """The reason why the operator has given up, or None."""
        conditions = self.object().get("status", {}).get("conditions", [])
        return next((c["reason"] for c in conditions if c["type"] == "Stalled"), None)

    def patch(self, config: Mapping[str, Any]) -> None:
        """Change its configuration in the object."""
        merged = json.dumps({"spec": {"config": config}})
        self.kubectl("patch", "stack", self.name, "--type=merge", "-p", merged)

    def delete(self) -> None:
        """Ask for the deletion of the object."""
        self.kubectl("delete", "stack", self.name, "--wait=false")

    def destroy(self) -> None:
        """Destroy what is there, without the operator."""
        words = ("--yes", "--stack", self.name)
        self.walk.run(".venv/bin/python", "-m", "commands.recover", *words, check=False)
        self.walk.run("pulumi", "state", "unprotect", "--all", *words, check=False)
        self.walk.run("pulumi", "destroy", "--skip-preview", *words, check=False)

    def servers(self) -> dict[str, str]:
        """Name -> id of its servers."""
        listed = openstack("server", "list", "--name", f"^{self.name}-")
        return {each["Name"]: each["ID"] for each in listed}

    def nodes(self) -> dict[str, bool]:
        """Name -> Ready of its nodes."""
        return {each["metadata"]["name"]: is_ready(each) for each in self._nodes()}

    def kubelets(self) -> list[str]:
        """The versions of its kubelets."""
        return [each["status"]["nodeInfo"]["kubeletVersion"] for each in self._nodes()]

    def is_cordoned(self, name: str) -> bool:
        """True if no pod is scheduled on the node of this name."""
        return any(
            each["metadata"]["name"] == name and each["spec"].get("unschedulable", False)
            for each in self._nodes()
        )

    def is_node(self, name: str, server: str) -> bool:
        """True if this very server is the Ready node of this name."""
        return any(
            each["metadata"]["name"] == name
            and is_ready(each)
            and each["spec"].get("providerID", "").endswith(server)
            for each in self._nodes()
        )

    def _nodes(self) -> list[dict[str, Any]]:
        kubeconfig = self.walk.folder / f"{self.name}.kubeconfig"
        write_private(kubeconfig, self.fleet("kubeconfig", self.name))
        listed = run("kubectl", "get", "nodes", "-o", "json", KUBECONFIG=str(kubeconfig))
        found: list[dict[str, Any]] = json.loads(listed)["items"]
        return found


@pytest.fixture(scope="module")
def others(hub: Cluster, walk: Walk) -> Iterator[dict[str, Other]]:
    """The clusters of the walk-through; what is left of them is destroyed without the operator."""
    found = {name: Other(name, hub, walk) for name in ("shop", "cafe", "mall")}
    try:
        yield found
    finally:
        # What Pulumi has begun in a workspace continues without the operator.
        for where, kind in ((operator.NAMESPACE, "deployment"), (operator.CLUSTERS, "statefulset")):
            there = ("--request-timeout=30s", "-n", where)
            hub.kubectl(*there, "scale", kind, "--all", "--replicas=0", check=False)
            hub.kubectl(
                *there, "delete", "pod", "--all", "--grace-period=0", "--force", check=False
            )
        for other in found.values():
            other.destroy()


@pytest.fixture
def shop(others: dict[str, Other]) -> Other:
    """The first of the other clusters, which everything happens to."""
    return others["shop"]


@pytest.fixture
def cafe(others: dict[str, Other]) -> Other:
    """The second one."""
    return others["cafe"]


def test_an_applied_stack_becomes_a_cluster(
    walk: Walk, shop: Other, by_hand: list[float], figures: Figures
) -> None:
    walk.step("The first cluster", LAB)
    made = seconds(lambda: until(shop.updated, "the first update", LONGEST_MAKING))
    figures.add("`pulumi up` by hand of a cluster of that size", by_hand[0])
    figures.add("from `fleet add` to all nodes Ready", made, at_most=by_hand[0] + LONGEST_MORE)
    assert shop.nodes() == {"shop-control-plane-0": True, "shop-worker-0": True}


def test_added_again_it_is_left_alone(shop: Other) -> None:
    generation = shop.object()["metadata"]["generation"]
    shop.add(RESYNC)
    assert shop.object()["metadata"]["generation"] == generation


def test_a_changed_count_scales_it(walk: Walk, shop: Other, figures: Figures) -> None:
    walk.step("Scale it")
    scaled = seconds(lambda: until(shop.updated, "the second worker", LONGEST_CHANGE))
    figures.add("from a changed workerCount to the node Ready", scaled, at_most=LONGEST_CHANGE)
    assert shop.nodes()["shop-worker-1"]


def test_a_worker_that_is_deleted_in_nova_comes_back(
    walk: Walk, shop: Other, figures: Figures
) -> None:
    before = shop.servers()["shop-worker-1"]
    walk.step("Lose a machine")

    def healed() -> bool:
        now = shop.servers().get("shop-worker-1", before)
        return now != before and shop.is_node("shop-worker-1", now)

    taken = seconds(lambda: until(healed, "the worker", LONGEST_CHANGE))
    figures.add("from a deleted worker to the node Ready", taken, at_most=LONGEST_HEALING)


def test_a_raised_version_upgrades_it(
    walk: Walk, shop: Other, charts: Path, figures: Figures
) -> None:
    chart_folder = ("pulumi", "config", "set", "--path", "addons.chartDirectory", "--stack", "shop")
    # The preview is here, where the charts are elsewhere than in the image.
    walk.run(*chart_folder, str(charts))
    upgraded = seconds(lambda: walk.step("Upgrade Kubernetes"))
    walk.run(*chart_folder, program_image.CHART_FOLDER)
    figures.add("`fleet upgrade` until all nodes are upgraded", upgraded)
    assert shop.updated()
    assert all(shop.nodes().values())
    assert shop.kubelets() == [NEW] * 3


def test_a_second_one_is_made_and_kubeconfigs_of_both_are_fetched_by_name(
    walk: Walk, shop: Other, cafe: Other, figures: Figures
) -> None:
    # It has its rest between two repairs: they would take the processor from the figures.
    walk.step("The second cluster")
    until(cafe.updated, "the second cluster", LONGEST_MAKING)
    assert (shop.kubelets(), cafe.kubelets()) == ([NEW] * 3, [NEW] * 2)
    said, taken = timed(lambda: shop.fleet("list", "--output", "json"))
    figures.add("`fleet list` of three clusters", taken, at_most=10)
    listed = {each["name"]: each for each in json.loads(said)}
    assert {name: each["ready"] for name, each in listed.items()} == {
        "admin": 2,
        "shop": 3,
        "cafe": 2,
    }
    seen = walk.step("Look at both")
    assert {"shop-worker-1", "cafe-worker-0"} <= set(seen.split())


def test_a_third_one_that_overlaps_is_refused_and_can_be_deleted(
    walk: Walk, others: dict[str, Other], shop: Other
) -> None:
    mall = others["mall"]
    refusal = "overlaps with 10.8.4.0/22 of the cluster shop"
    assert refusal in walk.step("A third one that overlaps", check=False)
    walk.run("pulumi", "config", "set", "deletionProtection", "false", "--stack", "mall")
    mall.add(0)
    until(lambda: refusal in mall.said(), "the refusal", LONGEST_CHANGE)
    until(lambda: mall.last_update().get("state") == "failed", "the failure", LONGEST_CHANGE)
    assert mall.servers() == {}
    assert openstack("network", "list", "--name", "mall") == []
    mall.delete()
    until(lambda: not mall.object(), "the deletion", LONGEST_CHANGE)
    assert all(shop.nodes().values())


def test_an_update_that_was_killed_is_repaired_by_the_next(shop: Other, figures: Figures) -> None:
    shop.patch({"workerCount": 3})
    until(lambda: "shop-worker-2" in shop.servers(), "the third worker's server", LONGEST_CHANGE)
    shop.kubectl("delete", "pod", "shop-workspace-0", "--grace-period=0", "--force")
    # Until then, the operator tells of the first try, which failed.
    repaired = seconds(lambda: until(shop.updated, "the repaired update", LONGEST_CHANGE))
    figures.add("from a killed update to all nodes Ready", repaired)
    assert len(shop.nodes()) == 4
    assert all(shop.nodes().values())


def test_an_update_is_finished_although_the_operator_was_killed(
    shop: Other, figures: Figures
) -> None:
    shop.patch({"workerCount": 2})
    until(lambda: shop.is_cordoned("shop-worker-2"), "the drain", LONGEST_CHANGE)
    before = shop.last_update()["name"]
    kill = ("delete", "pod", "--all", "--grace-period=0", "--force")
    shop.hub.kubectl("-n", operator.NAMESPACE, *kill)
    # A new operator takes the update that it has not seen end for a failed one.
    finished = seconds(lambda: shop.wait_for_update_after(before))
    figures.add("from a killed operator to the end of its update", finished)
    assert "shop-worker-2" not in shop.servers()
    assert len(shop.nodes()) == 3


@pytest.mark.parametrize("reason", ["UpdateFailed", "WorkspaceFailed"])
def test_what_was_given_up_in_an_outage_is_tried_again(
    shop: Other, store: ObjectStore, figures: Figures, reason: str
) -> None:
    """While its state cannot be read, updates fail, and no new pod can be prepared."""
    with store.away():
        if reason == "WorkspaceFailed":
            shop.kubectl("delete", "pod", "shop-workspace-0")
        until(lambda: shop.stalled() == reason, "the last try", LONGEST_CHANGE)
    before = shop.last_update()["name"]
    # Now, and not in ten minutes.
    job = ("create", "job", f"--from=cronjob/{operator.RETRIES}", reason.lower())
    shop.hub.kubectl("-n", operator.NAMESPACE, *job)
    tried = seconds(lambda: shop.wait_for_update_after(before))
    figures.add(f"from another try after {reason} to its end", tried)
    assert shop.stalled() is None


def test_a_protected_cluster_cannot_be_deleted(shop: Other) -> None:
    with pytest.raises(AssertionError, match="deletionProtection to false first"):
        shop.delete()
    assert "deletionTimestamp" not in shop.object()["metadata"]


def test_otherwise_its_deletion_destroys_it(shop: Other, figures: Figures) -> None:
    shop.patch({"deletionProtection": False})
    shop.delete()
    destroyed = seconds(lambda: until(lambda: not shop.object(), "the destroy", LONGEST_CHANGE))
    figures.add("from the deletion to nothing left", destroyed, at_most=LONGEST_CHANGE)
    assert shop.servers() == {}


def test_the_other_one_runs_on_and_is_destroyed_in_the_same_way(walk: Walk, cafe: Other) -> None:
    assert all(cafe.nodes().values())
    walk.step("Destroy one")
    assert cafe.object() == {}
    assert cafe.servers() == {}
