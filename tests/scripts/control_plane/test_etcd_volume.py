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


def test_data_on_the_boot_disk_is_not_hidden_by_a_volume(volume: Machine) -> None:
    volume.place("var/lib/etcd/member/snap/db")
    result = configure(volume)
    assert result.status == 1
    assert "etcd has data on the boot disk, but ETCD_DEVICE is set" in result.log
    assert not volume.called("mkfs")
    assert not volume.called("kubeadm init")


def test_without_the_volume_no_etcd_begins(volume: Machine) -> None:
    (volume.root / "dev/disk/by-id/virtio-0123").unlink()
    volume.does_not_wait("control-plane/etcd-volume.sh", 120)
    result = configure(volume)
    assert result.status == 1
    assert "is the volume attached?" in result.log
    assert not volume.called("kubeadm init")
    # At boot too: the kubelet needs the unit that runs this.
    volume.place(f"{STATE}/etcd-volume", "uuid-1\n")
    volume.answer("^findfs", status=1)
    result = volume.run("control-plane/control-plane.sh", "mount")
    assert result.status == 1
    assert "no device holds the file system uuid-1" in result.log
    assert not volume.called("mount -o")


@pytest.mark.parametrize(
    ("status", "mounted"),
    # 1: it was repaired; 4: it could not be.
    [(0, True), (1, True), (4, False), (8, False)],
)
def test_a_file_system_is_mounted_if_it_is_sound(
    volume: Machine, status: int, mounted: bool
) -> None:
    volume.place(f"{STATE}/etcd-volume", "uuid-1\n")
    volume.answer("^e2fsck -p", status=status)
    result = volume.run("control-plane/control-plane.sh", "mount")
    assert (result.status == 0) is mounted
    assert bool(volume.called("mount -o noatime")) is mounted
    assert mounted or "must be repaired by hand: e2fsck" in result.log


def test_a_volume_that_cannot_be_mounted_stops_the_boot_of_the_node(volume: Machine) -> None:
    volume.place(f"{STATE}/etcd-volume", "uuid-1\n")
    volume.answer("^mount -o", status=32)
    result = volume.run("control-plane/control-plane.sh", "mount")
    assert result.status == 1
    assert "cannot mount" in result.log


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
