"""pulumi-openstack through the real engine against the lab's cloud, step by step on one stack.

Run inside the lab: `python -m lab run -- pytest FILE`. Each test continues where the one before has
ended, in a Keystone project of their own.
"""

from __future__ import annotations

import copy
import subprocess
import time
from collections.abc import Iterator

import pytest

from lab.image import BASE_NAME
from lab.ssh_host import PATIENCE, make_key
from lab.until import until
from tests.lab import marks
from tests.lab.engine import Program
from tests.lab.programs.cloud.networks import ADDRESSES, MOVING
from tests.lab.steps import LARGER, SMALL, WEB, Steps
from tests.lab.tenant import Tenant
from tests.lab.traffic import answer_times, crash, longest_silence, reachable

pytestmark = marks.INSIDE


@pytest.fixture(scope="module")
def steps(tenant: Tenant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    folder = tmp_path_factory.mktemp("engine")
    environment = {"OS_CLOUD": tenant.name, "OS_CLIENT_CONFIG_FILE": str(tenant.clouds_yaml)}
    program = Program("cloud", folder, environment)
    made = Steps(program, make_key(folder))
    try:
        made.change()
        for name in ("a", "b"):
            made.host(name).wait_for_ssh()
        yield made
    finally:
        program.destroy()


@pytest.mark.parametrize(("name", "source"), [("a", "ConfigDrive"), ("b", "DataSourceOpenStack")])
def test_user_data_comes_by_config_drive_and_by_the_metadata_service(
    steps: Steps, name: str, source: str
) -> None:
    server = steps.host(name)
    until(lambda: server.ssh("pidof keepalived", ok=False), "keepalived", PATIENCE)
    assert server.ssh("hostname") == name
    assert source in server.ssh("cloud-init status --long", ok=False)


def test_a_refresh_finds_what_was_declared(steps: Steps) -> None:
    steps.program.pulumi("preview", "--refresh", "--expect-no-changes")


def test_both_servers_are_in_the_soft_group(steps: Steps, tenant: Tenant) -> None:
    (group,) = tenant.cloud.compute.server_groups()
    assert group.policy == "soft-anti-affinity"
    assert sorted(group.member_ids) == sorted(steps.outputs["servers"].values())


def test_a_blocked_port_is_blocked_until_a_rule_allows_it(steps: Steps) -> None:
    server = steps.host("a")
    until(lambda: server.ssh(f"ss -Hlnt sport = {WEB}"), "the web server", PATIENCE)
    inside = f"timeout 3 bash -c '</dev/tcp/{ADDRESSES['a']}/{WEB}'"
    assert not reachable(server.address, WEB)
    steps.host("b").ssh(f"! {inside}")
    assert steps.change(ports=[22, WEB]) == {"create": 1}
    until(lambda: reachable(server.address, WEB), "the open port", 20)
    assert not steps.host("b").fails(inside)


def test_a_second_address_is_dropped_without_an_allowed_address_pair(steps: Steps) -> None:
    until(lambda: steps.active() in ("a", "b"), "one active server", 20)
    other = "b" if steps.active() == "a" else "a"
    inside = f"timeout 3 bash -c '</dev/tcp/{MOVING}/22'"
    address = steps.outputs["addresses"]["moving"]
    steps.host(other).ssh(f"! {inside}")
    assert not reachable(address, 22)
    # The ports of all servers.
    assert steps.change(moving=True) == {"update": len(ADDRESSES)}
    until(lambda: reachable(address, 22), "the moving address", 30)
    assert not steps.host(other).fails(inside)


def test_the_address_moves_within_seconds_when_its_server_crashes(
    steps: Steps,
) -> None:
    first = steps.active()
    other = "b" if first == "a" else "a"
    moving = steps.host("moving")
    assert moving.ssh("hostname") == first
    with answer_times(moving.address, WEB) as answers:
        until(lambda: answers, "an answer", PATIENCE)
        crash(steps.outputs["servers"][first])
        crashed = time.monotonic()
        until(lambda: answers[-1] > crashed + 1.5, "an answer of the other", 30)
    silent = longest_silence(answers)
    print(f"the moving address was out for {silent:.2f} s")
    assert silent < 5
    assert moving.ssh("hostname") == other


def test_a_crashed_server_is_started_again_by_an_update_with_refresh(
    steps: Steps, tenant: Tenant
) -> None:
    ids = steps.outputs["servers"].values()
    compute = tenant.cloud.compute
    # Twice a minute, Nova looks for servers that have stopped by themselves.
    until(lambda: any(compute.get_server(i).status != "ACTIVE" for i in ids), "Nova's note", 90)
    assert steps.program.up("--refresh") == {"update": 1}
    for name in ("a", "b"):
        steps.host(name).wait_for_ssh()
    until(lambda: steps.active() in ("a", "b"), "one active server", 20)


def test_a_server_boots_from_a_volume_and_gets_a_second_one(steps: Steps) -> None:
    from_volume = {"image": BASE_NAME, "flavor": SMALL, "disk": 5}
    steps.change(
        servers={**steps.want["servers"], "c": from_volume},
        floating=[*steps.want["floating"], "c"],
        volume="c",
    )
    server = steps.host("c")
    server.wait_for_ssh()
    size = int(server.ssh("df --output=size --block-size=1M / | tail -n1"))
    assert 4500 < size < 5120
    device = f"/dev/disk/by-id/virtio-{steps.outputs['volume'][:20]}"
    server.ssh(f"sudo sh -ec 'mkfs.ext4 -q {device}; mount {device} /mnt; echo kept > /mnt/file'")
    server.ssh("sudo umount /mnt")

    # The files move with the volume to another server.
    assert steps.change(volume="b") == {"replace": 1}
    server.ssh(f"! test -e {device}")
    other = steps.host("b")
    assert other.ssh(f"sudo mount {device} /mnt && cat /mnt/file && sudo umount /mnt") == "kept"


def test_another_flavor_resizes_and_another_image_rebuilds_in_place(
    steps: Steps, tenant: Tenant
) -> None:
    before = steps.outputs["servers"]
    resized, rebuilt = steps.host("c"), steps.host("b")
    for server in (resized, rebuilt):
        server.ssh("echo kept | sudo tee /root/file && sync")
    wanted = copy.deepcopy(steps.want["servers"])
    wanted["c"]["flavor"], wanted["b"]["image"] = LARGER, BASE_NAME
    # Nova keeps the volume during the rebuild; then the update detaches it.
    assert steps.change(servers=wanted, volume="") == {"update": 2, "delete": 1}
    assert steps.outputs["servers"] == before
    compute = tenant.cloud.compute
    assert [compute.get_server(before[n]).status for n in ("b", "c")] == ["ACTIVE", "ACTIVE"]
    assert compute.get_server(before["c"]).flavor.original_name == LARGER
    resized.wait_for_ssh()
    assert resized.ssh("sudo cat /root/file") == "kept"
    rebuilt.wait_for_ssh()
    rebuilt.ssh("! sudo test -e /root/file")
    rebuilt.ssh("! command -v kubeadm")


def test_a_hard_group_refuses_a_server_too_many(steps: Steps, tenant: Tenant) -> None:
    """Set max_server_per_host: only with it the lab, a single host, enforces the policy."""
    hard = {"image": BASE_NAME, "flavor": SMALL, "policy": "anti-affinity", "most": 1}
    first = {n: s for n, s in steps.want["servers"].items() if n != "c"}
    floating = [n for n in steps.want["floating"] if n != "c"]
    steps.change(servers={**first, "d": hard}, floating=floating)
    steps.change(servers={**first, "d": hard, "c": hard}, ok=False)
    assert "unexpected state 'ERROR'" in steps.program.said
    (refused,) = tenant.cloud.compute.servers(name="^c$")
    fault = tenant.cloud.compute.get_server(refused.id).fault
    assert "No valid host" in fault["message"]
    # The next update removes the server that the failed one has left.
    steps.change(servers=first)
    assert set(steps.outputs["servers"]) == {"a", "b"}
    assert len(list(tenant.cloud.compute.servers())) == 2


def test_an_application_credential_works_until_it_is_deleted(steps: Steps, tenant: Tenant) -> None:
    credential = steps.outputs["credential"]
    assert tenant.accepts(credential["id"], credential["secret"])
    assert not tenant.accepts(credential["id"], "wrong")
    assert steps.change(credential=False) == {"delete": 1}
    assert not tenant.accepts(credential["id"], credential["secret"])


def test_destroy_leaves_the_project_empty(steps: Steps, tenant: Tenant) -> None:
    assert tenant.left()
    ids = steps.outputs["servers"].values()
    steps.program.destroy()
    assert tenant.left() == {}
    processes = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert not [line for line in processes.splitlines() for i in ids if i in line]
