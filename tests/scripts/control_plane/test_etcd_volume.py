"""etcd-volume.sh: the file system of etcd's volume, which is never formatted twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scripts.conftest import Machine
from tests.scripts.control_plane.conftest import STATE, configure, member


@pytest.fixture
def volume(make: Callable[..., Machine]) -> Machine:
    """A control plane with an attached volume."""
    machine = make()
    device = machine.place("dev/disk/by-id/virtio-0123")
    text = (machine.folder / "node.env").read_text()
    machine.write("node.env", text + f"ETCD_DEVICE='{device.parent}/*0123*'\n")
    machine.answer("^blkid -p -s UUID", "uuid-1\n")
    machine.answer("^findfs", f"{device}\n")
    return machine


def test_a_blank_volume_gets_a_file_system(volume: Machine) -> None:
    volume.answer("^blkid -p -s TYPE", status=2)
    assert configure(volume).status == 0
    volume.order("mkfs.ext4", "systemctl restart openstack-kubernetes-etcd-volume", "kubeadm init")
    unit = volume.read("etc/systemd/system/openstack-kubernetes-etcd-volume.service")
    assert "Before=kubelet.service" in unit
    assert "RequiredBy=kubelet.service" in unit
    assert volume.read(f"{STATE}/etcd-volume") == "uuid-1\n"


def test_a_volume_with_a_file_system_keeps_it(volume: Machine) -> None:
    volume.answer("^blkid -p -s TYPE", "ext4\n")
    assert configure(volume).status == 0
    assert not volume.called("mkfs")


@pytest.mark.parametrize(
    ("says", "status", "error"),
    [
        ("xfs\n", 0, 'holds "xfs", neither blank nor ext4'),
        ("dos\n", 0, 'holds "dos", neither blank nor ext4'),
        ("", 8, "blkid cannot tell"),
    ],
)
def test_a_volume_with_anything_else_is_not_touched(
    volume: Machine, says: str, status: int, error: str
) -> None:
    volume.answer("^blkid -p -s TYPE", says, status=status)
    result = configure(volume)
    assert result.status == 1
    assert error in result.log
    assert not volume.called("mkfs")


def test_a_volume_that_cannot_be_read_is_not_taken_for_a_blank_one(volume: Machine) -> None:
    """Of both, blkid says the same."""
    device = volume.root / "dev/disk/by-id/virtio-0123"
    device.unlink()
    device.mkdir()  # reading it fails, as it does when the store of a volume hangs
    volume.answer("^blkid -p -s TYPE", status=2)
    result = configure(volume)
    assert result.status == 1
    assert "cannot be read: not touching it" in result.log
    assert not volume.called("mkfs")


def test_at_boot_the_volume_is_mounted_and_never_formatted(volume: Machine) -> None:
    volume.place(f"{STATE}/etcd-volume", "uuid-1\n")
    assert volume.run("control-plane/control-plane.sh", "mount").status == 0
    volume.order("findfs UUID=uuid-1", "e2fsck -p", "mount -o noatime")
    assert not volume.called("mkfs")


def test_below_the_volume_no_etcd_can_begin(volume: Machine) -> None:
    volume.place(f"{STATE}/etcd-volume", "uuid-1\n")
    # Two boots: the file is there already.
    for _ in range(2):
        assert volume.run("control-plane/control-plane.sh", "mount").status == 0
        assert (volume.root / "var/lib/etcd/member").is_file()
    # Nor does it look like the data of one that ran there.
    volume.answer("^blkid -p -s TYPE", "ext4\n")
    assert configure(volume).status == 0


def test_a_mounted_volume_stays_mounted(volume: Machine) -> None:
    volume.answer("^mountpoint")
    assert configure(volume).status == 0
    assert volume.called("systemctl start openstack-kubernetes-etcd-volume")
    assert not volume.called("systemctl restart openstack-kubernetes-etcd-volume")


@pytest.mark.parametrize("joined", [True, False])
def test_a_machine_whose_etcd_has_had_a_volume_refuses_to_continue_without(
    make: Callable[..., Machine], joined: bool
) -> None:
    machine = member(make()) if joined else make()
    machine.place(f"{STATE}/etcd-volume", "uuid-1\n")
    result = configure(machine)
    assert result.status == 1
    assert "controlPlane.etcdVolume has left the configuration. Set it again" in result.log
    assert not machine.called("kubeadm")
