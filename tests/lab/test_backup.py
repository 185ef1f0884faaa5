"""Snapshots of etcd in a bucket, and the recovery from the loss of most or all control planes.

A lost machine is deleted in OpenStack, behind the program's back; etcd's volumes outlive it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab import image, settings
from lab.cluster import UP, Cluster, left_in_project, run
from tests.lab.kubeconfigs import copied, may_do_everything
from tests.lab.object_store import ObjectStore

CONTROL_PLANES = ["backup-control-plane-0", "backup-control-plane-1", "backup-control-plane-2"]
NODES = [*CONTROL_PLANES, "backup-worker-0"]
SCRIPTS = "/usr/local/lib/openstack-kubernetes/current"
CONTROL_PLANE_SH = f"{SCRIPTS}/control-plane/control-plane.sh"
BACKUP_SH = f"{SCRIPTS}/backup/backup.sh"
# A copy of the kubeconfig that an update has revoked.
LEAKED = "leaked-kubeconfig"
PROOF = "openstack-kubernetes-backup-proof.service"


def backup(store: ObjectStore, **more: Any) -> dict[str, Any]:
    """The key `backup`."""
    return {"keep": 1, "bucket": {**store.settings(), "keep": 2}, **more}


@pytest.fixture(scope="module")
def cluster(store: ObjectStore) -> Iterator[Cluster]:
    """The cluster, with a bucket and volumes; it is destroyed at the end, also after a failure."""
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=3, workers=1)
    keys["controlPlane"]["etcdVolume"] = {"size": 2}
    keys["etcd"] = {"quotaBackendBytes": 2**30}
    made = Cluster("backup", {**keys, "backup": backup(store)})
    made.set_secret("backupSecretKey", store.secret_key)
    with made.running():
        yield made


def take_backup(cluster: Cluster, control_plane: str) -> None:
    """Run the service that the timer starts."""
    cluster.ssh(control_plane, "sudo systemctl start openstack-kubernetes-backup.service")


def remember(cluster: Cluster, name: str) -> None:
    cluster.kubectl("create", "secret", "generic", name, "--from-literal=word=kept")


def remembered(cluster: Cluster) -> set[str]:
    """Names of the test's Secrets that the cluster has and can decrypt."""
    listed = json.loads(cluster.kubectl("get", "secrets", "-o", "json"))["items"]
    assert all(each["data"]["word"] == "a2VwdA==" for each in listed)
    return {each["metadata"]["name"] for each in listed}


def lose(*control_planes: str) -> None:
    run("openstack", "server", "delete", "--wait", *control_planes)


def refused(cluster: Cluster) -> str:
    """Run `pulumi up --refresh`, which must fail; returns its output."""
    result = cluster.stack.pulumi(*UP, "--refresh", capture=True, check=False)
    assert result.returncode != 0
    return result.stdout + result.stderr


def set_aside(cluster: Cluster) -> list[str]:
    """Folders of old etcd data that the first control plane keeps."""
    found = cluster.ssh(
        CONTROL_PLANES[0], "sudo find /var/lib/etcd -maxdepth 1 -name '.before-restore-*'"
    )
    return found.split()


def assert_whole(cluster: Cluster) -> None:
    """Assert that every node is Ready and all three etcd members are healthy."""
    assert cluster.nodes() == dict.fromkeys(NODES, True)
    health = cluster.etcdctl(
        CONTROL_PLANES[0], "endpoint", "health", "--cluster", "--write-out=json"
    )
    assert [each["health"] for each in json.loads(health)] == [True, True, True]


def test_each_control_plane_puts_its_snapshots_into_the_bucket(
    cluster: Cluster, store: ObjectStore
) -> None:
    remember(cluster, "before-the-loss")
    for _ in range(3):
        for control_plane in CONTROL_PLANES:
            take_backup(cluster, control_plane)
    folders = {name.split("/")[0] for name in store.names()}
    assert len(folders) == 1
    for control_plane in CONTROL_PLANES:
        end = f"-{control_plane}.db.gz.cms.tar"
        of_this = [name for name in store.names() if name.endswith(end)]
        assert len(of_this) == 2, store.names()
        kept = cluster.ssh(control_plane, "sudo ls /var/backups/etcd").split()
        assert [name.endswith(".keys") for name in kept] == [False, True]
    told = cluster.ssh(CONTROL_PLANES[0], "cat /var/lib/openstack-kubernetes/metrics/backup.prom")
    assert 'place="disk"' in told
    assert 'place="bucket"' in told
    listed = cluster.ssh(CONTROL_PLANES[0], f"sudo {BACKUP_SH} list 2>/dev/null")
    assert set(store.names()) <= set(listed.split())


def test_the_timers_run_on_every_control_plane(cluster: Cluster) -> None:
    for control_plane in CONTROL_PLANES:
        for unit in ("backup", "backup-proof", "defragment"):
            timer = f"openstack-kubernetes-{unit}.timer"
            assert cluster.ssh(control_plane, f"systemctl is-active {timer}") == "active\n"


def test_what_is_in_the_bucket_cannot_be_read(store: ObjectStore) -> None:
    for name in store.names():
        # The CA and the names of objects are in every snapshot; gzip and CMS have headers.
        content = store.read(name)
        assert b"BEGIN CERTIFICATE" not in content
        assert b"\x1f\x8b\x08" not in content[:1024]


def test_the_newest_snapshot_is_proved_while_the_cluster_changes(cluster: Cluster) -> None:
    metrics = "cat /var/lib/openstack-kubernetes/metrics/backup-proof.prom"
    for control_plane in CONTROL_PLANES:
        cluster.ssh(control_plane, f"sudo systemctl start {PROOF}")
        told = cluster.ssh(control_plane, metrics)
        (taken,) = (line.split()[1] for line in told.splitlines() if not line.startswith("#"))
        assert time.time() - int(taken) < 3600
        # Nothing is left of it.
        assert cluster.ssh(control_plane, "sudo ls -A /var/backups/etcd/.proof || true") == ""
        assert cluster.ssh(control_plane, "pgrep -f -- '[-]-name=proof' || true") == ""


def test_a_snapshot_that_was_changed_in_the_bucket_is_not_proved(
    cluster: Cluster, store: ObjectStore
) -> None:
    newest = [name for name in store.names() if f"-{CONTROL_PLANES[0]}." in name][-1]
    whole = store.read(newest)
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 1
    store.write(newest, bytes(damaged))
    prove = f"sudo systemctl start {PROOF}; systemctl show -P Result {PROOF}"
    assert cluster.ssh(CONTROL_PLANES[0], prove) == "exit-code\n"
    store.write(newest, whole)
    assert cluster.ssh(CONTROL_PLANES[0], prove) == "success\n"


def test_the_last_control_plane_continues_alone_and_loses_nothing(cluster: Cluster) -> None:
    lose(*CONTROL_PLANES[:2])
    cluster.ssh(CONTROL_PLANES[2], f"sudo {CONTROL_PLANE_SH} alone")
    assert remembered(cluster) == {"before-the-loss"}
    cluster.up("--refresh")
    assert_whole(cluster)
    assert remembered(cluster) == {"before-the-loss"}


def test_without_any_control_plane_an_update_refuses_to_replace_the_old_data(
    cluster: Cluster, store: ObjectStore
) -> None:
    take_backup(cluster, CONTROL_PLANES[1])
    leaked = copied(cluster, LEAKED)
    cluster.up(rotation={"kubeconfig": 2})
    assert not may_do_everything(leaked)
    remember(cluster, "after-the-backup")
    lose(*CONTROL_PLANES)
    told = refused(cluster)
    newest = store.names()[-1]
    assert newest.endswith("-backup-control-plane-1.db.gz.cms.tar")
    assert "/var/lib/etcd/member holds the data of an etcd that ran, last written" in told
    assert f"pulumi config set --path backup.restore {newest}" in told


def test_the_cluster_is_restored_from_the_snapshot_and_the_old_data_is_kept(
    cluster: Cluster, store: ObjectStore
) -> None:
    # The refused update has refreshed the state: it knows which machines are gone.
    cluster.up(backup=backup(store, restore=store.names()[-1]))
    assert len(set_aside(cluster)) == 1


def test_what_was_revoked_after_the_backup_is_revoked_by_a_refresh(cluster: Cluster) -> None:
    leaked = cluster.stack.folder / LEAKED
    assert may_do_everything(leaked)
    assert not may_do_everything(cluster.kubeconfig)
    cluster.up("--refresh")
    assert not may_do_everything(leaked)
    assert_whole(cluster)
    assert remembered(cluster) == {"before-the-loss"}


def test_the_restored_cluster_works_as_before(cluster: Cluster) -> None:
    cluster.wait_for_pods(180)
    cluster.kubectl("run", "new", "--image=registry.k8s.io/pause:3.10.2")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/new", "--timeout=60s")
    remember(cluster, "after-the-restore")
    take_backup(cluster, CONTROL_PLANES[0])


def test_the_restore_setting_can_be_removed_and_nothing_else_changes(
    cluster: Cluster, store: ObjectStore
) -> None:
    cluster.up(backup=backup(store))
    assert_whole(cluster)
    assert remembered(cluster) == {"before-the-loss", "after-the-restore"}
    assert cluster.up() == {}


def test_adopting_the_volume_keeps_what_no_backup_has(cluster: Cluster) -> None:
    remember(cluster, "after-the-last-backup")
    lose(*CONTROL_PLANES)
    assert f"{CONTROL_PLANE_SH} adopt" in refused(cluster)
    cluster.ssh(CONTROL_PLANES[0], f"sudo {CONTROL_PLANE_SH} adopt")
    cluster.up()
    assert_whole(cluster)
    assert remembered(cluster) == {"before-the-loss", "after-the-restore", "after-the-last-backup"}
    assert len(set_aside(cluster)) == 2
    cluster.wait_for_pods(180)


def test_adopting_data_that_was_set_aside_loses_nothing_either(cluster: Cluster) -> None:
    lose(*CONTROL_PLANES)
    refused(cluster)
    oldest = sorted(set_aside(cluster))[0]
    cluster.ssh(CONTROL_PLANES[0], f"sudo {CONTROL_PLANE_SH} adopt {oldest}")
    cluster.up()
    assert_whole(cluster)
    assert remembered(cluster) == {"before-the-loss", "after-the-backup"}
    assert len(set_aside(cluster)) == 3
    assert cluster.up() == {}
    cluster.destroy()
    assert left_in_project() == {}
