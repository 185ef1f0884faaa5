"""An etcd without space left, and the runbook that repairs it, by the very commands in the docs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable

import pytest

from lab.cluster import Cluster
from lab.until import until
from tests.runbooks import runbook

CONTROL_PLANE = "one-control-plane-0"
QUOTA = 64 * 2**20
# A ConfigMap has at most 1 MiB.
WORD = "x" * 900_000
AT_ONCE = 10
# More than the 100 MiB from which on a database is defragmented.
COUNT = 130


def commands() -> list[str]:
    """The commands of the runbook, one text for each block of them."""
    return re.findall(r"```sh\n(.*?)```", runbook("Full etcd"), re.DOTALL)


def add_config_maps(cluster: Cluster, numbers: Iterable[int]) -> bool:
    """True if the API server stored all of them."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"fill-{number}"},
            "data": {"word": WORD},
        }
        for number in numbers
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    stored = cluster.kubectl("create", "-f", "-", stdin=text, check=False).splitlines()
    return len(stored) == len(items)


def alarms(cluster: Cluster) -> str:
    return cluster.etcdctl(CONTROL_PLANE, "alarm", "list")


def test_a_full_etcd_refuses_writes(cluster: Cluster) -> None:
    cluster.up(etcd={"quotaBackendBytes": QUOTA})
    for first in itertools.count(0, AT_ONCE):
        if not add_config_maps(cluster, range(first, first + AT_ONCE)):
            break
        assert first * len(WORD) < 2 * QUOTA, "the quota is not in force"
    until(lambda: "NOSPACE" in alarms(cluster), "the alarm", 60)
    with pytest.raises(AssertionError, match="mvcc: database space exceeded"):
        cluster.kubectl("create", "configmap", "one-more", "--from-literal=a=b")


def test_what_fills_it_is_found_and_can_be_deleted(cluster: Cluster) -> None:
    look, _ = commands()
    told = cluster.ssh(CONTROL_PLANE, look)
    assert "alarm:NOSPACE" in told
    most = told.splitlines()[-5:]
    assert any("configmaps" in line for line in most), told
    listed = cluster.kubectl("get", "configmaps", "-o", "name").split()
    cluster.kubectl("delete", *(name for name in listed if "fill-" in name))


def test_the_runbook_makes_it_accept_writes(cluster: Cluster) -> None:
    look, repair = commands()
    function = look.partition("etcdctl alarm list")[0]
    cluster.ssh(CONTROL_PLANE, f"set -e\n{function}{repair}")
    assert alarms(cluster) == ""
    cluster.kubectl("create", "configmap", "one-more", "--from-literal=a=b")
    until(lambda: all(cluster.nodes().values()), "ready nodes", 400)
    status = json.loads(cluster.etcdctl(CONTROL_PLANE, "endpoint", "status", "--write-out=json"))
    assert status[0]["Status"]["dbSize"] < QUOTA // 2


def test_etcd_is_defragmented_by_its_timer_only_when_it_pays(cluster: Cluster) -> None:
    # A database of this quota is too small.
    service = "openstack-kubernetes-defragment.service"
    cluster.ssh(CONTROL_PLANE, f"sudo systemctl start {service}")
    told = cluster.ssh(CONTROL_PLANE, f"sudo journalctl --no-pager -o cat -u {service}")
    assert "nothing to do" in told


def test_etcd_is_defragmented_when_most_of_it_is_free(cluster: Cluster) -> None:
    cluster.up(etcd={"quotaBackendBytes": 16 * QUOTA})
    for first in range(0, COUNT, AT_ONCE):
        assert add_config_maps(cluster, range(first, first + AT_ONCE))
    cluster.kubectl("delete", "configmaps", *(f"fill-{number}" for number in range(COUNT)))
    _, repair = commands()
    function = commands()[0].partition("etcdctl alarm list")[0]
    compact = repair.partition("etcdctl --command-timeout")[0]
    cluster.ssh(CONTROL_PLANE, f"set -e\n{function}{compact}")

    def size() -> int:
        told = cluster.etcdctl(CONTROL_PLANE, "endpoint", "status", "--write-out=json")
        return int(json.loads(told)[0]["Status"]["dbSize"])

    def free() -> bool:
        told = cluster.etcdctl(CONTROL_PLANE, "endpoint", "status", "--write-out=json")
        status = json.loads(told)[0]["Status"]
        return bool(status["dbSizeInUse"] * 2 < status["dbSize"])

    until(free, "compaction", 60)
    before = size()
    assert before > 100 * 2**20
    cluster.ssh(CONTROL_PLANE, "sudo systemctl start openstack-kubernetes-defragment.service")
    assert size() < before // 2
    assert cluster.nodes()[CONTROL_PLANE]
    cluster.up(etcd=None)
