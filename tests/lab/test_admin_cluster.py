"""An admin cluster with an object store, and another cluster whose backups and state are in it.

The store outlives its pod and its node; then the admin cluster is destroyed and made again, with
other keys, while the other one runs on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addons import object_store
from bench.figures import Figures
from lab import image, settings
from lab.cluster import Cluster, left_in_project, run
from lab.poll import Poll
from lab.stack import Stack
from lab.until import until

CONTROL_PLANE, WORKER = "shop-control-plane-0", "hub-worker-0"
BACKUP = "openstack-kubernetes-backup.service"
PROOF = "openstack-kubernetes-backup-proof.service"
COPY = "shop.json"
BACKUP_SH = "/usr/local/lib/openstack-kubernetes/current/backup/backup.sh"
# The sum that signs a request without a body.
NO_BODY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture(scope="module")
def hub() -> Iterator[Cluster]:
    """The admin cluster; it is destroyed at the end, also after a failure."""
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    store = {"enabled": True, "clusters": ["shop", "other"], "storageSize": "1Gi"}
    made = Cluster("hub", {**keys, "addons": {**keys["addons"], "objectStore": store}})
    with made.running():
        yield made


@pytest.fixture(scope="module")
def shop(hub: Cluster) -> Iterator[Cluster]:
    """The other cluster."""
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    made = Cluster("shop", {**keys, "hostCidr": "10.8.4.0/22", "backup": backup(hub)})
    made.set_secret("backupSecretKey", store(hub)["clusters"]["shop"]["secretKey"])
    with made.running():
        local = made.stack
        try:
            yield made
        finally:
            # The store may be gone.
            made.stack = local


@pytest.fixture(scope="module")
def local(shop: Cluster) -> Stack:
    """The stack of the other cluster where its state was at first."""
    return shop.stack


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the CA, and for a copy of the state outside of the store."""
    return tmp_path_factory.mktemp("admin")


class InStore(Stack):
    """The stack of the other cluster, with its state in the store."""

    def __init__(self, hub: Cluster, shop: Cluster, folder: Path) -> None:
        self._store = store(hub)
        self._ca = folder / "store-ca.crt"
        self._ca.write_text(self._store["caCertificate"])
        super().__init__(shop.name, {}, shop.stack.config_file)

    def environment(self) -> dict[str, str]:
        """As docs/fleet.md sets it."""
        return {
            **super().environment(),
            "PULUMI_BACKEND_URL": self._store["pulumi"]["url"],
            "AWS_CA_BUNDLE": str(self._ca),
            "AWS_ACCESS_KEY_ID": self._store["pulumi"]["accessKey"],
            "AWS_SECRET_ACCESS_KEY": self._store["pulumi"]["secretKey"],
        }


def move(old: Stack, new: Stack, copy: Path) -> None:
    """Move the state of a stack, which exists in both backends; the copy remains."""
    old.pulumi("stack", "export", "--file", str(copy))
    new.pulumi("stack", "import", "--file", str(copy))


def store(hub: Cluster) -> dict[str, Any]:
    """The output for the store's users."""
    found: dict[str, Any] = hub.stack.outputs()["objectStore"]
    return found


def backup(hub: Cluster) -> dict[str, Any]:
    """The key `backup` of the other cluster."""
    return {"bucket": {**store(hub)["clusters"]["shop"]["bucket"], "keep": 20}}


def ask(hub: Cluster, folder: Path, owner: str, bucket: str) -> str:
    """List a bucket with the key of a cluster, and verify the store's certificate."""
    told = store(hub)
    ca = folder / "ca.crt"
    ca.write_text(told["caCertificate"])
    login = f'user = "etcd-{owner}:{told["clusters"][owner]["secretKey"]}"\n'
    return run(
        *("curl", "--silent", "--show-error", "--config", "-", "--cacert", str(ca)),
        *("--aws-sigv4", "aws:amz:us-east-1:s3", "--header", f"x-amz-content-sha256: {NO_BODY}"),
        f"{told['endpoint']}/{bucket}?list-type=2",
        stdin=login,
    )


def take_backup(shop: Cluster) -> str:
    """Run the service that the timer starts; returns its result."""
    return shop.ssh(
        CONTROL_PLANE, f"sudo systemctl start {BACKUP}; systemctl show -P Result {BACKUP}"
    ).strip()


def in_bucket(shop: Cluster) -> list[str]:
    """Names of the snapshots in the bucket, as the cluster lists them."""
    listed = shop.ssh(CONTROL_PLANE, f"sudo {BACKUP_SH} list 2>/dev/null")
    return [name for name in listed.split() if name.endswith(".db.gz.cms.tar")]


def store_answers(hub: Cluster, folder: Path) -> None:
    until(lambda: "<ListBucketResult" in ask(hub, folder, "shop", "etcd-shop"), "the store", 300)


def test_a_second_update_of_the_admin_cluster_changes_nothing(hub: Cluster) -> None:
    assert hub.up() == {}


def test_the_keys_are_secret_in_the_output(hub: Cluster) -> None:
    keys = [each["secretKey"] for each in (store(hub)["pulumi"], *store(hub)["clusters"].values())]
    shown = hub.stack.pulumi("stack", "output", "--json", capture=True).stdout
    assert store(hub)["endpoint"] in shown
    assert not [key for key in keys if key in shown]


def test_snapshots_of_another_cluster_are_put_into_its_bucket_and_proved(shop: Cluster) -> None:
    assert take_backup(shop) == "success"
    assert in_bucket(shop)
    shop.ssh(CONTROL_PLANE, f"sudo systemctl start {PROOF}")
    told = shop.ssh(
        CONTROL_PLANE, "cat /var/lib/openstack-kubernetes/metrics/backup-proof.prom"
    ).splitlines()
    assert [line for line in told if not line.startswith("#")]


def test_it_needs_little_memory(hub: Cluster, figures: Figures) -> None:
    words = ("top", "pods", "-n", object_store.NAMESPACE, "--no-headers")
    until(lambda: hub.kubectl(*words, check=False), "the metrics of its pod", 120)
    [line] = hub.kubectl(*words).splitlines()
    figures.add("memory of the store", int(line.split()[2].removesuffix("Mi")), "MiB", at_most=256)


def test_a_key_opens_no_bucket_but_its_own(hub: Cluster, shop: Cluster, folder: Path) -> None:
    assert f"{CONTROL_PLANE}.db.gz.cms.tar" in ask(hub, folder, "shop", "etcd-shop")
    for owner, bucket in (("other", "etcd-shop"), ("shop", "etcd-other"), ("shop", "pulumi-state")):
        assert "<Code>AccessDenied</Code>" in ask(hub, folder, owner, bucket)


def test_the_state_of_the_other_cluster_moves_there(
    hub: Cluster, shop: Cluster, local: Stack, folder: Path
) -> None:
    there = InStore(hub, shop, folder)
    move(local, there, folder / COPY)
    shop.stack = there
    assert shop.up() == {}
    there.pulumi("stack", "export", "--file", str(folder / COPY))


def test_the_store_comes_back_with_another_pod(hub: Cluster, shop: Cluster, folder: Path) -> None:
    before = set(in_bucket(shop))
    hub.kubectl("-n", "object-store", "delete", "pod", "--all", "--grace-period=0", "--force")
    store_answers(hub, folder)
    assert before <= set(in_bucket(shop))
    assert take_backup(shop) == "success"


def test_the_store_comes_back_on_another_machine(hub: Cluster, shop: Cluster, folder: Path) -> None:
    before = set(in_bucket(shop))
    run("openstack", "server", "delete", "--wait", WORKER)
    hub.up("--refresh")
    store_answers(hub, folder)
    assert before <= set(in_bucket(shop))


def test_the_other_cluster_runs_on_while_the_admin_cluster_is_made_again(
    hub: Cluster, shop: Cluster, local: Stack, folder: Path
) -> None:
    keys = store(hub)["clusters"]["shop"]
    # Its state goes with the store; the older one tells its addresses.
    shop.stack = local
    with Poll(shop.endpoint) as poll:
        hub.destroy()
        assert take_backup(shop) == "exit-code"
        hub.up()
    assert poll.longest < 10
    assert shop.nodes() == {CONTROL_PLANE: True, "shop-worker-0": True}
    store_answers(hub, folder)
    assert store(hub)["clusters"]["shop"]["secretKey"] != keys["secretKey"]
    assert take_backup(shop) == "exit-code"


def test_its_state_comes_back_from_the_copy(hub: Cluster, shop: Cluster, folder: Path) -> None:
    shop.stack = InStore(hub, shop, folder)
    assert shop.stack.resources() == []
    shop.stack.pulumi("stack", "import", "--file", str(folder / COPY))
    assert shop.up("--refresh") == {}


def test_with_its_new_settings_its_next_backup_succeeds(hub: Cluster, shop: Cluster) -> None:
    shop.set_secret("backupSecretKey", store(hub)["clusters"]["shop"]["secretKey"])
    shop.up(backup=backup(hub))
    assert take_backup(shop) == "success"
    assert in_bucket(shop)


def test_its_state_moves_back(hub: Cluster, shop: Cluster, local: Stack, folder: Path) -> None:
    move(shop.stack, local, folder / COPY)
    shop.stack = local
    assert shop.up() == {}


def test_nothing_of_both_is_left(hub: Cluster, shop: Cluster) -> None:
    shop.destroy()
    hub.destroy()
    assert left_in_project() == {}
