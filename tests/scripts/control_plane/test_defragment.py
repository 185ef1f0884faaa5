"""defragment.sh: etcd's databases are defragmented one at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scripts.conftest import Machine, Result
from tests.scripts.control_plane.conftest import DB, MEMBERS, OWN_MEMBER, configure, member

STATUS = '"MemberID" : 34\n"DBSize" : {size}\n"DBSizeInUse" : {used}\n"Leader" : {leader}\n'
# The turn of the certificates, as far as this needs it.
TURN = """
take_turn() {{ kubectl fake-turn "$1"; {free}; }}
end_turn() {{ kubectl fake-end-of-turn; }}
"""


def fragmented(
    machine: Machine, *, size: int = 200 << 20, used: int = 80 << 20, leader: int = 99,
    free: str = "true",
) -> Machine:  # fmt: skip
    """A member whose database has this size, and those bytes of it in use."""
    member(machine)
    script = machine.folder / "control-plane/defragment.sh"
    script.write_text(script.read_text() + TURN.format(free=free))
    machine.place(DB)
    machine.answer("^crictl ps", "etcd-id\n")
    machine.answer("^df ", "Avail\n1000000000\n")
    machine.answer("endpoint status", STATUS.format(size=size, used=used, leader=leader))
    machine.answer("member list", OWN_MEMBER + MEMBERS)
    return machine


def defragment(machine: Machine) -> Result:
    return machine.run("control-plane/control-plane.sh", "defragment")


def test_a_database_that_is_mostly_free_is_defragmented_in_turn(
    make: Callable[..., Machine],
) -> None:
    machine = fragmented(make())
    result = defragment(machine)
    assert result.status == 0, result
    machine.order("fake-turn defragmentation of etcd", "600s defrag", "fake-end-of-turn")
    [command] = machine.called("600s defrag")
    assert command.startswith("crictl exec etcd-id etcdctl --endpoints=https://127.0.0.1:2379 ")
    assert "--cluster" not in command
    assert not machine.called("move-leader")


def test_a_leader_hands_over_before_it_is_defragmented(make: Callable[..., Machine]) -> None:
    machine = fragmented(make(), leader=34)
    assert defragment(machine).status == 0
    machine.order("fake-turn", "move-leader 11", "600s defrag")


def test_the_only_member_is_defragmented_as_leader(make: Callable[..., Machine]) -> None:
    machine = fragmented(make(), leader=34)
    machine.answer("member list", OWN_MEMBER)
    assert defragment(machine).status == 0
    assert not machine.called("move-leader")
    assert machine.called("600s defrag")


@pytest.mark.parametrize(("size", "used"), [(100 << 20, 1 << 20), (200 << 20, 100 << 20)])
def test_a_database_that_is_small_or_in_use_is_left_alone(
    make: Callable[..., Machine], size: int, used: int
) -> None:
    machine = fragmented(make(), size=size, used=used)
    assert defragment(machine).status == 0
    assert not machine.called("fake-turn")
    assert not machine.called("600s defrag")


def test_no_one_is_defragmented_out_of_turn(make: Callable[..., Machine]) -> None:
    machine = fragmented(make(), free="false")
    assert defragment(machine).status == 0
    assert not machine.called("600s defrag")


def test_a_disk_without_room_for_a_second_database_is_not_filled(
    make: Callable[..., Machine],
) -> None:
    machine = fragmented(make())
    machine.answer("^df ", "Avail\n1000\n")
    result = defragment(machine)
    assert result.status == 1
    assert f"needs {80 << 20} for the defragmentation of etcd" in result.log
    assert not machine.called("600s defrag")


def test_its_timer_defragments(make: Callable[..., Machine]) -> None:
    machine = make()
    assert configure(machine).status == 0
    assert machine.called("systemctl restart -- openstack-kubernetes-defragment.timer")
    assert machine.run("control-plane/control-plane.sh", "reset").status == 0
    assert not machine.has("etc/systemd/system/openstack-kubernetes-defragment.timer")
