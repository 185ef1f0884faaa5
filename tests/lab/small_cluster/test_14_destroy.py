"""The end of the cluster: protected first, then destroyed, with volumes that stay."""

from __future__ import annotations

import json
import re

import pytest

from commands.cloud_cleanup import CSI_MARK
from lab.cluster import Cluster, left_in_project, openstack, run
from lab.errors import LabError
from lab.until import until
from tests.lab.small_cluster.pods import CLAIM


def test_a_protected_cluster_is_not_destroyed(cluster: Cluster) -> None:
    before = openstack("server", "list")
    assert cluster.up(deletionProtection=True) == {}
    # Also without a preview, which would refuse first.
    with pytest.raises(LabError, match="small-deletion-protection"):
        cluster.stack.pulumi("destroy", "--yes", "--skip-preview", capture=True)
    assert openstack("server", "list") == before
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
    assert cluster.up(deletionProtection=False) == {}


def test_destroy_leaves_the_retained_volume_and_nothing_else(cluster: Cluster) -> None:
    keeper = re.sub(r"\bdata\b", "kept", CLAIM).replace("writer", "keeper")
    cluster.kubectl("apply", "-f", "-", stdin=keeper)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/keeper", "--timeout=180s")
    name = cluster.kubectl("get", "pvc", "kept", "-o", "jsonpath={.spec.volumeName}")
    volume = cluster.kubectl("get", "pv", name, "-o", "jsonpath={.spec.csi.volumeHandle}")
    retain = json.dumps({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    cluster.kubectl("patch", "pv", name, "-p", retain)
    assert len(openstack("volume", "list")) == 2
    # Another cluster of the same name has another ID.
    mark = f"{CSI_MARK}=small-00000000"
    run("openstack", "volume", "create", "--size=1", f"--property={mark}", "theirs")
    cluster.up(keepVolumes=True)
    cluster.destroy()
    left = {each["Name"]: each["ID"] for each in openstack("volume", "list")}
    assert left == {name: volume, "theirs": left["theirs"]}
    run("openstack", "volume", "delete", *left.values())
    until(lambda: left_in_project() == {}, "an empty project", 60)
