"""Before a destroy: what the cluster retains is marked, and all of it if the API is silent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any
from unittest.mock import MagicMock

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack.exceptions import NotSupported

from commands import keep_volumes
from commands.cloud_cleanup import CSI_MARK, KEEP_MARK
from tests.unit.engine import CLUSTER_ID
from tests.unit.http_servers import Silent, kubeconfig, kubernetes_api


def persistent_volume(volume: str, policy: str, driver: str | None) -> dict[str, Any]:
    source = {"hostPath": {}} if driver is None else {"csi": {"driver": driver}}
    if driver is not None:
        source["csi"]["volumeHandle"] = volume
    return {"spec": {"persistentVolumeReclaimPolicy": policy, **source}}


class Api(Silent):
    """Answers as the API server does, to whoever shows a certificate of the cluster's CA."""

    def do_GET(self) -> None:  # noqa: N802
        csi = keep_volumes.CSI_DRIVER
        items = [
            persistent_volume("retained", "Retain", csi),
            persistent_volume("deleted", "Delete", csi),
            persistent_volume("other", "Retain", "nfs.csi.k8s.io"),
            persistent_volume("local", "Retain", None),
        ]
        self.send_response(200 if self.path == "/api/v1/persistentvolumes" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"items": items}).encode())


@pytest.fixture
def api(pem: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The API of the cluster, which answers."""
    with kubernetes_api(Api, pem) as url:
        monkeypatch.setenv("KUBECONFIG_TEXT", kubeconfig(url, pem))
        yield


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    made = MagicMock()
    made.block_storage.volumes.return_value = [
        Thing(id=name, name=f"pvc-{name}", metadata={CSI_MARK: cluster})
        for name, cluster in (
            ("retained", "demo-1a"),
            ("deleted", "demo-1a"),
            ("theirs", "demo-2b"),
        )
    ]
    monkeypatch.setattr(keep_volumes, "connect_from_environment", lambda: made)
    return made


def marked(cloud: MagicMock) -> set[str]:
    calls = cloud.block_storage.set_volume_metadata.call_args_list
    assert all(call.kwargs == {KEEP_MARK: "true"} for call in calls)
    return {call.args[0].id for call in calls}


@pytest.mark.usefixtures("api")
def test_volumes_of_the_cluster_that_are_retained_are_marked(cloud: MagicMock) -> None:
    assert keep_volumes.main("demo-1a") == 0
    assert marked(cloud) == {"retained"}


@pytest.mark.usefixtures("api")
def test_marks_of_an_earlier_destroy_are_removed(
    cloud: MagicMock, capsys: pytest.CaptureFixture[str]
) -> None:
    for volume in cloud.block_storage.volumes():
        volume.metadata[KEEP_MARK] = "true"
    assert keep_volumes.main("demo-1a") == 0
    [call] = cloud.block_storage.delete_volume_metadata.call_args_list
    assert (call.args[0].id, call.kwargs) == ("deleted", {"keys": [KEEP_MARK]})
    assert "no longer keeping volume pvc-deleted" in capsys.readouterr().out


@pytest.mark.usefixtures("api")
def test_a_cloud_without_cinder_has_nothing_to_keep(cloud: MagicMock) -> None:
    cloud.has_service = lambda name: name != "block-storage"
    cloud.block_storage.volumes.side_effect = NotSupported
    assert keep_volumes.main("demo-1a") == 0


@pytest.mark.usefixtures("api")
def test_a_cloud_that_does_not_answer_is_told_in_one_line(
    cloud: MagicMock, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.block_storage.set_volume_metadata.side_effect = ConnectFailure("no route")
    assert keep_volumes.main("demo-1a") == 1
    said = capsys.readouterr().err
    assert said == "not every volume of demo-1a is marked: no route; run this again\n"


def test_without_an_answer_every_volume_of_the_cluster_is_marked(
    cloud: MagicMock,
    pem: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(keep_volumes.retained.retry, "stop", lambda _: True)
    monkeypatch.setenv("KUBECONFIG_TEXT", kubeconfig("https://127.0.0.1:1", pem))
    assert keep_volumes.main("demo-1a") == 0
    assert marked(cloud) == {"retained", "deleted"}
    said = capsys.readouterr().out
    assert "every volume of the cluster is kept" in said
    assert "keeping volume pvc-deleted" in said


@pytest.mark.usefixtures("cloud")
def test_a_person_who_runs_it_without_a_kubeconfig_is_told_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG_TEXT", raising=False)
    assert keep_volumes.main("demo-1a") == 0
    assert "every volume of the cluster is kept" in capsys.readouterr().out


def test_a_name_in_place_of_the_id_keeps_nothing_and_is_refused() -> None:
    with pytest.raises(SystemExit):
        keep_volumes.arguments(["demo"])
    assert keep_volumes.arguments([CLUSTER_ID]).cluster_id == CLUSTER_ID
