"""After a destroy: what the cluster's controllers made is deleted, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace as Thing
from unittest.mock import MagicMock

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack.exceptions import ForbiddenException, HttpException, NotSupported, SDKException

from commands import cloud_cleanup
from tests.unit.engine import CLUSTER_ID


@pytest.fixture
def cloud() -> MagicMock:
    """A project with Octavia; an administrator who names no project sees that of others too."""
    made = MagicMock(current_project_id="ours")
    made.block_storage.snapshots.return_value = []
    made.block_storage.volumes.return_value = []
    for listed in (
        made.network.ips,
        made.network.security_groups,
        made.load_balancer.load_balancers,
    ):
        listed.return_value = []
    return made


def listing(*things: Thing) -> Callable[..., list[Thing]]:
    """A service as an administrator sees it."""

    def answer(project_id: str | None = None) -> list[Thing]:
        return [each for each in things if project_id in (None, each.project)]

    return answer


def refusal(status: int, why: str) -> HttpException:
    """The answer of a service, as openstacksdk raises it."""
    answer = MagicMock(status_code=status, headers={})
    return HttpException(message="refused", response=answer, details=why)


def balancer(status: str, project: str = "ours", cluster: str = "demo") -> Thing:
    name = f"kube_service_{cluster}_a_b"
    return Thing(name=name, provisioning_status=status, project=project)


def address(project: str = "ours", cluster: str = "demo") -> Thing:
    description = f"Floating IP for Kubernetes external service a/b from cluster {cluster}"
    return Thing(description=description, floating_ip_address="198.51.100.9", project=project)


@pytest.mark.parametrize(
    ("status", "requested"),
    [("ACTIVE", True), ("ERROR", True), ("PENDING_UPDATE", False), ("PENDING_DELETE", False)],
)
def test_a_load_balancer_that_is_changing_is_deleted_in_a_later_round(
    cloud: MagicMock, status: str, requested: bool
) -> None:
    cloud.load_balancer.load_balancers = listing(balancer(status))
    assert cloud_cleanup.clean_up(cloud, "demo") == ["load balancer kube_service_demo_a_b"]
    assert cloud.load_balancer.delete_load_balancer.called is requested


def test_what_services_got_is_deleted_and_not_that_of_other_clusters(cloud: MagicMock) -> None:
    others = ("other-demo", "demo-2")
    there, reached = balancer("ACTIVE"), address()
    cloud.load_balancer.load_balancers = listing(
        *(balancer("ACTIVE", cluster=other) for other in others), there
    )
    # The gateways' own one has the text of the program.
    own = Thing(description="", floating_ip_address="198.51.100.7", project="ours")
    cloud.network.ips = listing(*(address(cluster=other) for other in others), own, reached)
    assert cloud_cleanup.clean_up(cloud, "demo") == [
        "load balancer kube_service_demo_a_b",
        "floating IP 198.51.100.9",
    ]
    # Octavia refuses one with listeners, unless they are to go too.
    cloud.load_balancer.delete_load_balancer.assert_called_once_with(there, cascade=True)
    cloud.network.delete_ip.assert_called_once_with(reached)


def test_an_administrator_deletes_nothing_of_other_projects(cloud: MagicMock) -> None:
    cloud.load_balancer.load_balancers = listing(balancer("ACTIVE", "theirs"))
    cloud.network.ips = listing(address("theirs"))
    assert cloud_cleanup.clean_up(cloud, "demo") == []
    assert not cloud.network.delete_ip.called


def test_a_user_whom_octavia_refuses_has_made_no_load_balancer(cloud: MagicMock) -> None:
    cloud.load_balancer.load_balancers.side_effect = ForbiddenException("not allowed")
    assert cloud_cleanup.clean_up(cloud, "demo") == []


def test_a_load_balancer_of_someone_else_may_have_no_name(cloud: MagicMock) -> None:
    nameless = balancer("ACTIVE")
    nameless.name = None
    cloud.load_balancer.load_balancers = listing(nameless)
    assert cloud_cleanup.clean_up(cloud, "demo") == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["demo"],
        [""],
        ["--keep-volumes"],
        # It would delete the volumes that are to be kept.
        ["demo-1a2b3c4d", "--keep-volume5"],
        ["demo-1a2b3c4d", "keep-volumes"],
    ],
)
def test_a_command_line_that_is_not_understood_deletes_nothing(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cloud_cleanup.arguments(words)
    assert ended.value.code == 2
    assert "usage: python -m commands.cloud_cleanup" in capsys.readouterr().err


def test_the_command_line_of_a_destroy_is_understood() -> None:
    given = cloud_cleanup.arguments([CLUSTER_ID, "--keep-volumes"])
    assert (given.cluster_id, given.keep_volumes) == (CLUSTER_ID, True)
    assert cloud_cleanup.arguments(["a.b-c-1a2b3c4d"]).keep_volumes is False


def test_a_security_group_in_use_is_deleted_in_a_later_round(
    cloud: MagicMock,
) -> None:
    def group(cluster: str) -> Thing:
        description = f"Security Group for a/b Service LoadBalancer in cluster {cluster}"
        return Thing(name=f"lb-sg-{cluster}", description=description, project="ours")

    cloud.network.security_groups = listing(group("demo"), group("other-demo"))
    cloud.network.delete_security_group.side_effect = refusal(409, "in use")
    assert cloud_cleanup.clean_up(cloud, "demo") == ["security group lb-sg-demo (refused: in use)"]
    assert cloud.network.delete_security_group.call_count == 1


def volume(name: str, **metadata: str) -> Thing:
    marks = {cloud_cleanup.CSI_MARK: "demo", **metadata}
    return Thing(id=f"{name}-id", name=name, size=8, status="available", metadata=marks)


@pytest.mark.parametrize("keep", [True, False])
def test_a_marked_volume_stays_with_its_snapshots_if_that_is_wanted(
    cloud: MagicMock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    keep: bool,
) -> None:
    gone, stays = volume("gone"), volume("stays", **{cloud_cleanup.KEEP_MARK: "true"})
    snapshot = volume("snapshot")
    snapshot.volume_id = stays.id
    storage = cloud.block_storage
    storage.volumes.side_effect = lambda: [v for v in (gone, stays) if v.id not in deleted]
    storage.snapshots.side_effect = lambda: [s for s in (snapshot,) if s.id not in deleted]
    deleted: list[str] = []
    storage.delete_volume.side_effect = deleted.append
    storage.delete_snapshot.side_effect = deleted.append
    cloud.compute.servers.return_value = []
    cloud.has_service = lambda name: name != "load-balancer"
    monkeypatch.setattr(cloud_cleanup, "connect_from_environment", lambda: cloud)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    assert cloud_cleanup.main("demo", keep_volumes=keep) == 0
    said = capsys.readouterr().out
    if keep:
        assert deleted == ["gone-id"]
        assert "kept volume stays (stays-id, 8 GiB)" in said
        assert "kept snapshot snapshot (snapshot-id, 8 GiB)" in said
    else:
        assert sorted(deleted) == ["gone-id", "snapshot-id", "stays-id"]
        assert "kept" not in said


def test_a_cloud_without_cinder_has_no_volumes(cloud: MagicMock) -> None:
    cloud.has_service.return_value = False
    cloud.block_storage.volumes.side_effect = NotSupported
    cloud.block_storage.snapshots.side_effect = NotSupported
    assert cloud_cleanup.clean_up(cloud, "demo-1a") == []
    assert cloud_cleanup.kept(cloud, "demo-1a") == []


@pytest.fixture
def run(cloud: MagicMock, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Run the command on a cloud without servers, with no time to wait."""
    cloud.compute.servers.return_value = []
    cloud.has_service = lambda name: name != "load-balancer"
    monkeypatch.setattr(cloud_cleanup, "connect_from_environment", lambda: cloud)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    monkeypatch.setattr(cloud_cleanup, "PATIENCE", 0)
    return lambda: cloud_cleanup.main("demo")


def test_what_the_cloud_refuses_is_named_and_the_rest_deleted(
    cloud: MagicMock, run: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    def delete(name: str) -> None:
        if name == "data-id":
            raise refusal(400, "Volume has a snapshot")

    storage = cloud.block_storage
    storage.volumes.return_value = [volume("data"), volume("logs")]
    storage.delete_volume.side_effect = delete
    assert run() == 1
    assert [call.args for call in storage.delete_volume.call_args_list] == [
        ("data-id",),
        ("logs-id",),
    ]
    said = capsys.readouterr().err
    left = "volume data (refused: Volume has a snapshot), volume logs"
    assert f"none of these has gone for 0 s: {left}; delete them" in said


def test_a_snapshot_that_is_still_being_made_is_deleted_in_a_later_round(
    cloud: MagicMock, run: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_cleanup, "PATIENCE", 60)
    snapshot = volume("nightly")
    snapshot.volume_id = "data-id"
    storage = cloud.block_storage
    storage.snapshots.side_effect = [[snapshot], [snapshot], []]
    storage.delete_snapshot.side_effect = [refusal(400, "its status must be available"), None]
    assert run() == 0
    assert storage.delete_snapshot.call_count == 2


def test_a_volume_does_not_wait_for_snapshots_of_others(cloud: MagicMock) -> None:
    stuck = volume("nightly")
    stuck.volume_id, stuck.status = "data-id", "error_deleting"
    cloud.block_storage.snapshots.return_value = [stuck]
    cloud.block_storage.volumes.return_value = [volume("data"), volume("logs")]
    cloud_cleanup.clean_up(cloud, "demo")
    cloud.block_storage.delete_volume.assert_called_once_with("logs-id")


def test_what_takes_many_rounds_is_told_once(
    cloud: MagicMock,
    run: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cloud_cleanup, "PATIENCE", 60)
    cloud.block_storage.volumes.side_effect = [*[[volume("data")]] * 9, []]
    assert run() == 0
    assert capsys.readouterr().out == "deleting volume data\n"


def test_the_cloud_may_take_its_time_as_long_as_something_goes(
    cloud: MagicMock, run: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=10)
    monkeypatch.setattr("commands.waiting.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(cloud_cleanup, "PATIENCE", 60)
    many = [volume(f"data-{number}") for number in range(20)]
    cloud.block_storage.volumes.side_effect = [many[count:] for count in range(21)]
    assert run() == 0
    stuck = itertools.chain([many, many[1:]], itertools.repeat(many[2:]))
    cloud.block_storage.volumes.side_effect = stuck
    assert run() == 1


@pytest.mark.parametrize(
    "error", [ConnectFailure("no route"), SDKException("no route"), refusal(500, "no route")]
)
def test_a_cloud_that_does_not_answer_is_told_in_one_line(
    cloud: MagicMock,
    run: Callable[[], int],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    cloud.block_storage.volumes.return_value = [volume("data")]
    cloud.block_storage.delete_volume.side_effect = error
    assert run() == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("the cloud refuses a request or does not answer: ")


def test_nothing_is_deleted_while_the_cluster_has_servers(
    cloud: MagicMock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.compute.servers.return_value = [Thing(name="demo-worker-0", metadata={"cluster": "demo"})]
    cloud.load_balancer.load_balancers = listing(balancer("ACTIVE"))
    monkeypatch.setattr(cloud_cleanup, "connect_from_environment", lambda: cloud)
    assert cloud_cleanup.main("demo") == 1
    assert "demo-worker-0" in capsys.readouterr().err
    assert not cloud.load_balancer.delete_load_balancer.called
