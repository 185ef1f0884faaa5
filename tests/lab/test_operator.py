"""An operator makes, scales, repairs and destroys another cluster (`make lab-operator`).

The lab cannot download the operator: its chart and the archive of its image must be in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from addons import operator
from bench.figures import Figures
from lab import image, program_image, settings, toolchain
from lab.cloud import inside, layout, namespace
from lab.image import archives
from lab.paths import PROJECT
from tests.lab import needs
from tests.lab.cluster import Cluster, left_in_project, openstack, run
from tests.lab.needs import Needs
from tests.lab.object_store import ObjectStore
from tests.smoke.live import until

NEEDS = Needs((operator.CHART.name,), ("operator",))
pytestmark = pytest.mark.skipif(bool(NEEDS.missing()), reason=f"there is no {NEEDS.missing()}")

WORKER = "hub-worker-0"
STACK = ("-n", operator.CLUSTERS, "get", "stack", "shop", "--ignore-not-found", "-o", "json")
PORT = 7482
# Between two repairs: the shortest that the operator keeps.
RESYNC = 60
LONGEST_MAKING, LONGEST_HEALING, LONGEST_CHANGE = 900, 180, 900


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The bucket with the state of the other cluster."""
    with ObjectStore(tmp_path_factory.mktemp("store"), PORT + 1) as made:
        yield made


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with the lab's own charts and the operator's."""
    return needs.every_chart(tmp_path_factory.mktemp("charts"))


@pytest.fixture(scope="module")
def hub(charts: Path) -> Iterator[Cluster]:
    """The admin cluster, with the images on its worker that it needs. It leaves nothing."""
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    addons = {**keys["addons"], "chartDirectory": str(charts)}
    made = Cluster("hub", {**keys, "addons": addons})
    try:
        made.up()
        files = (program_image.build(), archives.FETCHED / "operator.tar", archives.python())
        with served(*files) as urls:
            for url in urls:
                fetch = f"curl --silent --fail {url} | sudo ctr -n k8s.io images import -"
                made.ssh(WORKER, f"set -o pipefail; {fetch}")
        made.up(addons={**addons, "operator": {"enabled": True}})
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
        namespace.enter([*command, "--directory", str(folder)], environment={}),
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


class Shop:
    """The other cluster, as those who run the fleet see it."""

    def __init__(self, hub: Cluster, store: ObjectStore, folder: Path) -> None:
        self.hub = hub
        self.folder = folder
        query = f"endpoint={store.endpoint}&s3ForcePathStyle=true&region={store.region}"
        self.environment = {
            **os.environ,
            **inside.environment(),
            **toolchain.environment(),
            "PYTHONPATH": str(PROJECT),
            "PULUMI_BACKEND_URL": f"s3://{store.bucket}?{query}",
            "PULUMI_CONFIG_PASSPHRASE": "of no use to anyone",
            "AWS_ACCESS_KEY_ID": store.access_key,
            "AWS_SECRET_ACCESS_KEY": store.secret_key,
        }
        (folder / "Pulumi.yaml").write_text((PROJECT / "Pulumi.yaml").read_text())
        self.run("pulumi", "stack", "init", "shop")
        keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
        self.configure({
            **keys,
            "hostCidr": "10.8.4.0/22",
            "deletionProtection": True,
            "addons": {**keys["addons"], "chartDirectory": program_image.CHART_FOLDER},
        })  # fmt: skip

    def run(self, *command: str) -> str:
        done = subprocess.run(
            namespace.enter(command, environment={}, folder=self.folder),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def configure(self, changed: Mapping[str, Any]) -> None:
        file = self.folder / "Pulumi.shop.yaml"
        document = yaml.safe_load(file.read_text()) or {}
        keys = {f"openstack-kubernetes:{key}": value for key, value in changed.items()}
        document["config"] = {**document.get("config", {}), **keys}
        file.write_text(yaml.safe_dump(document))

    def add(self) -> None:
        """Let the operator run it."""
        self.run(
            *(str(PROJECT / ".venv/bin/python"), "-m", "commands.fleet", "add", "shop"),
            *("--image", program_image.NAME, "--resync", str(RESYNC)),
            *("--kubeconfig", str(self.hub.kubeconfig)),
        )

    def object(self) -> dict[str, Any]:
        """The Stack, empty if there is none."""
        found: dict[str, Any] = json.loads(self.hub.kubectl(*STACK) or "{}")
        return found

    def updated(self) -> bool:
        """True if the present configuration is applied; an update that failed is an error."""
        status = self.object().get("status", {})
        last = status.get("lastUpdate", {})
        if any(c["type"] == "Stalled" for c in status.get("conditions", [])):
            pytest.fail(f"the operator has given up: {last.get('message')}")
        assert last.get("state") != "failed", last.get("message")
        return bool(last.get("generation") == self.object()["metadata"]["generation"])

    def stalled(self) -> str | None:
        """The reason why the operator has given up, or None."""
        conditions = self.object().get("status", {}).get("conditions", [])
        return next((c["reason"] for c in conditions if c["type"] == "Stalled"), None)

    def patch(self, config: Mapping[str, Any]) -> None:
        """Change its configuration in the object."""
        self.hub.kubectl(
            *("-n", operator.CLUSTERS, "patch", "stack", "shop", "--type=merge"),
            *("-p", json.dumps({"spec": {"config": config}})),
        )

    def nodes(self) -> dict[str, bool]:
        """Name -> Ready of its nodes."""
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        outputs = ("stack", "output", "--stack", "shop", "--show-secrets")
        kubeconfig.write_text(self.run("pulumi", *outputs, "kubeconfig"))
        listed = json.loads(
            run("kubectl", "get", "nodes", "-o", "json", KUBECONFIG=str(kubeconfig))
        )["items"]
        return {
            each["metadata"]["name"]: any(
                c["type"] == "Ready" and c["status"] == "True" for c in each["status"]["conditions"]
            )
            for each in listed
        }


@pytest.fixture(scope="module")
def shop(
    hub: Cluster, store: ObjectStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """The other cluster; what the tests left of it is destroyed without the operator."""
    made = Shop(hub, store, tmp_path_factory.mktemp("shop"))
    try:
        yield made
    finally:
        if made.object():
            hub.kubectl("-n", "operator", "scale", "deployment", "--all", "--replicas=0")
            addons = settings.cluster(image="any")["addons"]
            made.configure({"deletionProtection": False, "addons": addons})
            made.run("pulumi", "cancel", "--yes", "--stack", "shop")
            made.run(
                *("pulumi", "destroy", "--yes", "--run-program", "--stack", "shop"),
                *("--skip-preview", "--cwd", str(PROJECT)),
                *("--config-file", str(made.folder / "Pulumi.shop.yaml")),
            )


def took(true: Callable[[], object], what: str, at_most: float) -> float:
    """Wait; returns the seconds that it took."""
    begun = time.monotonic()
    until(true, what, at_most)
    return time.monotonic() - begun


def servers() -> dict[str, str]:
    """Name -> id of the other cluster's servers."""
    return {each["Name"]: each["ID"] for each in openstack("server", "list", "--name", "^shop-")}


def test_an_applied_stack_becomes_a_cluster(shop: Shop, figures: Figures) -> None:
    shop.add()
    seconds = took(shop.updated, "the first update", LONGEST_MAKING)
    figures.add("from `fleet add` to all nodes Ready", seconds, at_most=LONGEST_MAKING)
    assert shop.nodes() == {"shop-control-plane-0": True, "shop-worker-0": True}


def test_added_again_it_is_left_alone(shop: Shop) -> None:
    generation = shop.object()["metadata"]["generation"]
    shop.add()
    assert shop.object()["metadata"]["generation"] == generation


def test_a_changed_count_scales_it(shop: Shop, figures: Figures) -> None:
    shop.patch({"workerCount": 2})
    seconds = took(shop.updated, "the second worker", LONGEST_CHANGE)
    figures.add("from a changed workerCount to the node Ready", seconds, at_most=LONGEST_CHANGE)
    assert shop.nodes()["shop-worker-1"]
    # As one who keeps the file does.
    shop.configure({"workerCount": 2})


def test_a_worker_that_is_deleted_in_nova_comes_back(shop: Shop, figures: Figures) -> None:
    before = servers()["shop-worker-1"]
    run("openstack", "server", "delete", "--wait", "shop-worker-1")
    begun = time.monotonic()
    until(
        lambda: (
            servers().get("shop-worker-1", before) != before and shop.nodes().get("shop-worker-1")
        ),
        "the worker",
        LONGEST_CHANGE,
    )
    healed = time.monotonic() - begun
    figures.add("from a deleted worker to the node Ready", healed, at_most=LONGEST_HEALING)


def test_an_update_that_was_killed_is_repaired_by_the_next(shop: Shop, figures: Figures) -> None:
    shop.patch({"workerCount": 3})
    until(lambda: "shop-worker-2" in servers(), "the third worker's server", LONGEST_CHANGE)
    shop.hub.kubectl(
        *("-n", operator.CLUSTERS, "delete", "pod", "shop-workspace-0"),
        *("--grace-period=0", "--force"),
    )
    begun = time.monotonic()
    # Until then, the operator tells of the first try, which failed.
    until(shop.updated, "the repaired update", LONGEST_CHANGE)
    figures.add("from a killed update to all nodes Ready", time.monotonic() - begun)
    assert len(shop.nodes()) == 4
    assert all(shop.nodes().values())


@pytest.mark.parametrize("reason", ["UpdateFailed", "WorkspaceFailed"])
def test_what_was_given_up_in_an_outage_is_tried_again(
    shop: Shop, store: ObjectStore, figures: Figures, reason: str
) -> None:
    """While its state cannot be read, updates fail, and no new pod can be prepared."""
    with store.away():
        if reason == "WorkspaceFailed":
            shop.hub.kubectl("-n", operator.CLUSTERS, "delete", "pod", "shop-workspace-0")
        until(lambda: shop.stalled() == reason, "the last try", LONGEST_CHANGE)
    before = shop.object()["status"]["lastUpdate"]["name"]
    # Now, and not in ten minutes.
    job = ("create", "job", f"--from=cronjob/{operator.RETRIES}", reason.lower())
    shop.hub.kubectl("-n", operator.NAMESPACE, *job)

    def repaired() -> bool:
        last = shop.object()["status"]["lastUpdate"]
        return bool(last["name"] != before and last["state"] == "succeeded")

    seconds = took(repaired, "an update that succeeds", LONGEST_CHANGE)
    figures.add(f"from another try after {reason} to its end", seconds)
    assert shop.stalled() is None


def test_a_protected_cluster_cannot_be_deleted(shop: Shop) -> None:
    delete = ("-n", operator.CLUSTERS, "delete", "stack", "shop", "--wait=false")
    with pytest.raises(AssertionError, match="deletionProtection to false first"):
        shop.hub.kubectl(*delete)
    assert "deletionTimestamp" not in shop.object()["metadata"]


def test_otherwise_its_deletion_destroys_it(shop: Shop, figures: Figures) -> None:
    shop.patch({"deletionProtection": False})
    shop.hub.kubectl("-n", operator.CLUSTERS, "delete", "stack", "shop", "--wait=false")
    seconds = took(lambda: not shop.object(), "the destroy", LONGEST_CHANGE)
    figures.add("from the deletion to nothing left", seconds, at_most=LONGEST_CHANGE)
    assert servers() == {}
