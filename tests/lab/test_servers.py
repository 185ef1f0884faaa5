"""Servers as Nova promises them. Run inside the lab: `python -m lab run -- pytest FILE`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.ssh_host import PATIENCE
from lab.until import until
from tests.lab import marks
from tests.lab.project import Project, Server
from tests.lab.traffic import reachable

pytestmark = marks.INSIDE


# Takes a loop device and gives it back, as long as it runs: LOOP_CTL_GET_FREE, LOOP_SET_FD,
# LOOP_CLR_FD. Another program that asks between the first two gets the same one and has to retry.
_TAKE_LOOP_DEVICES = """
import contextlib, fcntl, os, sys, time
file, control = (os.open(path, os.O_RDWR) for path in (sys.argv[1], "/dev/loop-control"))
while os.path.exists(sys.argv[1]) and os.getppid() != 1:
    with contextlib.suppress(OSError):
        device = os.open(f"/dev/loop{fcntl.ioctl(control, 0x4C82)}", os.O_RDWR)
        with contextlib.suppress(OSError):
            fcntl.ioctl(device, 0x4C00, file)
            fcntl.ioctl(device, 0x4C01)
        os.close(device)
    time.sleep(0.0005)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("project"))
    try:
        yield project
    finally:
        project.clean()


@pytest.fixture(scope="module")
def server(project: Project) -> Server:
    return project.server("shared", user_data="#cloud-config\nruncmd: [touch /root/user-data]\n")


def traces(server_id: str) -> list[str]:
    """Traces of a server on the machine: processes, mounts, loop devices, control groups."""
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True).stdout
    groups = subprocess.run(
        ["find", "/sys/fs/cgroup", "-type", "d", "-name", f"*{server_id}*"],
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    processes = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True).stdout
    texts = (loops, groups, processes, Path("/proc/self/mounts").read_text())
    return [line for text in texts for line in text.splitlines() if server_id in line]


def test_config_drive_brings_user_data_name_and_key(server: Server) -> None:
    assert server.ssh("sudo test -e /root/user-data && hostname") == server.name
    assert "ConfigDrive" in server.ssh("cloud-init status --long")


def test_metadata_service_brings_user_data(project: Project) -> None:
    script = "#!/bin/sh\necho by metadata > /root/user-data\n"
    server = project.server("metadata", config_drive=False, user_data=script)
    until(lambda: server.ssh("sudo cat /root/user-data", ok=False), "user data", PATIENCE)
    assert server.ssh("sudo cat /root/user-data") == "by metadata"
    assert "DataSourceOpenStack" in server.ssh("cloud-init status --long")


def test_all_units_of_a_server_run(server: Server) -> None:
    assert server.ssh("systemctl is-system-running --wait", ok=False) == "running"


def test_memory_is_limited_to_the_flavors(server: Server) -> None:
    fill = "python3 -c 'len(b\"x\" * ({} << 20))'"
    server.ssh(fill.format(500))
    assert server.fails(fill.format(1500))
    server.ssh("true")


def test_processor_time_is_limited_to_the_flavors(server: Server) -> None:
    busy = "python3 -c 'import time; end = time.time() + 3\nwhile time.time() < end: pass'"
    spent = server.ssh(
        f"bash -c \"TIMEFORMAT='%U %S'; time (for n in 1 2 3; do {busy} & done; wait)\" 2>&1"
    )
    assert sum(float(word) for word in spent.split()[-2:]) < 3 * 1.25


def test_a_server_can_be_a_kubernetes_node(server: Server) -> None:
    server.ssh(
        "sudo sh -ec 'mkdir -p /o/l /o/u /o/w /o/m; "
        "mount -t overlay -o lowerdir=/o/l,upperdir=/o/u,workdir=/o/w o /o/m; umount /o/m'"
    )
    server.ssh("sudo sysctl -w net.ipv4.ip_forward=1")
    server.ssh("sudo sh -c 'head -c1 /dev/kmsg >/dev/null; test -c /dev/fuse'")
    # As the kubelet holds a raw block volume.
    server.ssh("sudo sh -ec 'truncate -s 8M /o/d; d=$(losetup --find --show /o/d); losetup -d $d'")
    server.ssh("sudo ip link add vx0 type vxlan id 7 dstport 4789 && sudo ip link del vx0")
    assert server.ssh("findmnt -n -o PROPAGATION /") == "shared"
    assert server.ssh("findmnt -n -o FSTYPE /sys/fs/bpf") == "bpf"
    assert server.ssh("findmnt -n -o FSTYPE /") == "ext4"
    # The kubelet needs these control groups, on either version.
    folders = "if [ -f cgroup.controllers ]; then echo .; else echo cpu cpuacct memory pids; fi"
    server.ssh(
        f"cd /sys/fs/cgroup; for c in $({folders}); do sudo mkdir $c/t && sudo rmdir $c/t"
        " || exit; done"
    )


def test_a_closed_port_is_closed_until_a_rule_opens_it(project: Project, server: Server) -> None:
    server.ssh("sudo systemd-run --quiet --unit web python3 -m http.server 8080")

    until(lambda: server.ssh("ss -Hlnt sport = 8080"), "the web server", PATIENCE)
    assert not reachable(server.address, 8080)
    project.open(8080)
    until(lambda: reachable(server.address, 8080), "port 8080", 20)


def test_a_second_address_needs_an_allowed_address_pair(project: Project, server: Server) -> None:
    other = project.server("pairs")
    network = project.cloud.network
    second = "10.66.0.200"
    server.ssh(f"sudo ip address add {second}/32 dev eth0")
    connect = f"timeout 3 bash -c '</dev/tcp/{second}/22'"
    other.ssh(f"! {connect}")
    network.update_port(server.port, allowed_address_pairs=[{"ip_address": second}])
    until(lambda: not other.fails(connect), "the second address", 30)
    network.update_port(server.port, allowed_address_pairs=[])
    other.ssh("sudo ip neigh flush all")
    until(lambda: other.ssh(f"! {connect} && echo gone"), "the second address's end", 30)


def test_a_data_volume_comes_grows_goes_and_keeps_its_files(
    project: Project, server: Server
) -> None:
    storage = project.cloud.block_storage
    volume = project.volume("data")
    device = project.attach(server, volume)
    server.ssh(f"sudo sh -ec 'mkfs.ext4 -q {device}; mount {device} /mnt; echo kept > /mnt/file'")

    project.cloud.block_storage.default_microversion = "3.42"
    storage.extend_volume(volume, 2)
    size = f"sudo blockdev --getsize64 {device}"
    until(lambda: server.ssh(size) == str(2 << 30), "the larger device", PATIENCE)

    # It is still there, with its files, after the server has rebooted itself.
    before = server.boot_id()
    server.ssh("sudo systemctl reboot", ok=False)
    until(lambda: server.has_booted_since(before), "a reboot", PATIENCE)
    assert server.ssh(f"sudo mount {device} /mnt && cat /mnt/file && sudo umount /mnt") == "kept"

    project.detach(server, volume)
    server.ssh(f"! test -e {device}")


def test_a_snapshot_becomes_a_volume(project: Project, server: Server) -> None:
    storage = project.cloud.block_storage
    first = project.volume("first")
    device = project.attach(server, first)
    server.ssh(f"echo of the snapshot | sudo dd of={device} conv=fsync status=none")
    snapshot = storage.create_snapshot(volume_id=first.id, force=True, name=f"{project.prefix}-s")
    storage.wait_for_status(snapshot, "available", interval=0.3, wait=60)
    project.undo(lambda: (
        storage.delete_snapshot(snapshot), storage.wait_for_delete(snapshot, interval=0.3)
    ))  # fmt: skip
    server.ssh(f"echo later | sudo dd of={device} conv=fsync status=none")
    second = project.volume("second", snapshot_id=snapshot.id)
    copy = project.attach(server, second)
    assert server.ssh(f"sudo head -n1 {copy}") == "of the snapshot"
    for volume in (first, second):
        project.detach(server, volume)


@pytest.mark.parametrize("kind", ["SOFT", "HARD"])
def test_reboot(project: Project, server: Server, kind: str) -> None:
    before = server.boot_id()
    project.cloud.compute.reboot_server(server.id, kind)
    until(lambda: server.has_booted_since(before), "a reboot", PATIENCE)
    server.wait_until("ACTIVE")


def test_stop_and_start(project: Project, server: Server) -> None:
    project.cloud.compute.stop_server(server.id)
    server.wait_until("SHUTOFF")
    assert not [line for line in traces(server.id) if "lxc monitor" in line]
    project.cloud.compute.start_server(server.id)
    server.wait_until("ACTIVE")
    server.wait_for_ssh()
    assert server.ssh("sudo ls /root/user-data") == "/root/user-data"


def test_console_log_shows_the_boot(project: Project, server: Server) -> None:
    output = project.cloud.compute.get_server_console_output(server.id)["output"]
    assert "cloud-init" in output


def test_an_interface_comes_and_goes(project: Project, server: Server) -> None:
    compute, network = project.cloud.compute, project.cloud.network
    port = network.create_port(network_id=project.network.id, name=f"{project.prefix}-second")
    project.undo(lambda: network.delete_port(port))
    compute.create_server_interface(server.id, port_id=port.id)
    until(lambda: port.mac_address in server.ssh("ip link"), "eth1", PATIENCE)
    compute.delete_server_interface(port.id, server=server.id)
    until(lambda: port.mac_address not in server.ssh("ip link"), "eth1's end", PATIENCE)


def test_resize_is_reverted_and_confirmed(project: Project) -> None:
    compute = project.cloud.compute
    server = project.server("resize")
    larger = compute.find_flavor("lab.2c2g").id

    server.ssh("echo before | sudo tee /root/file && sync")
    compute.resize_server(server.id, larger)
    server.wait_until("VERIFY_RESIZE")
    server.wait_for_ssh()
    server.ssh("echo after | sudo tee /root/file && sync")
    compute.revert_server_resize(server.id)
    server.wait_until("ACTIVE")
    server.wait_for_ssh()
    assert server.ssh("sudo cat /root/file") == "before"

    compute.resize_server(server.id, larger)
    server.wait_until("VERIFY_RESIZE")
    compute.confirm_server_resize(server.id)
    server.wait_until("ACTIVE")
    server.wait_for_ssh()
    assert compute.get_server(server.id).flavor.original_name == "lab.2c2g"
    server.ssh("python3 -c 'len(b\"x\" * (1500 << 20))'")


def test_rebuild_keeps_the_server_and_wipes_its_disk(project: Project, server: Server) -> None:
    before = server.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub; sudo touch /root/old")
    project.cloud.compute.rebuild_server(server.id, image=project.image())
    until(lambda: not server.fails("! sudo test -e /root/old"), "the rebuild", PATIENCE)
    server.wait_until("ACTIVE")
    assert server.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub") != before
    assert server.ssh("cat /var/lib/cloud/data/instance-id") == server.id


def test_an_image_of_a_server_boots(project: Project, server: Server) -> None:
    cloud = project.cloud
    server.ssh("echo of the image | sudo tee /root/file && sync")
    image = cloud.compute.create_server_image(server.id, f"{project.prefix}-image", wait=True)
    project.undo(lambda: cloud.image.delete_image(image))
    copy = project.server("copy", block_device_mapping=[], image_id=image.id)
    assert copy.ssh("sudo cat /root/file") == "of the image"


def test_boot_from_a_volume_that_goes_with_the_server(project: Project) -> None:
    storage = project.cloud.block_storage
    server = project.server("volume", block_device_mapping=[{
        "boot_index": 0, "uuid": project.image(), "source_type": "image",
        "destination_type": "volume", "volume_size": 5, "delete_on_termination": True,
    }])  # fmt: skip
    size = int(server.ssh("df --output=size --block-size=1M / | tail -n1"))
    assert 4500 < size < 5120
    volumes = [v.id for v in storage.volumes() if v.attachments
               and v.attachments[0]["server_id"] == server.id]  # fmt: skip
    assert len(volumes) == 1
    server.ssh("echo kept | sudo tee /root/file && sync")
    project.cloud.compute.reboot_server(server.id, "HARD")
    time.sleep(2)
    server.wait_until("ACTIVE")
    server.wait_for_ssh()
    assert server.ssh("sudo cat /root/file") == "kept"
    project.delete(server)
    until(lambda: not storage.find_volume(volumes[0]), "the volume's end", 60)


def test_a_disk_without_a_file_system_is_refused_with_a_reason(project: Project) -> None:
    cloud = project.cloud
    image = cloud.image.create_image(
        name=f"{project.prefix}-bad", data=bytes(1 << 20), disk_format="raw",
        container_format="bare", wait=True,
    )  # fmt: skip
    project.undo(lambda: cloud.image.delete_image(image))
    server = project.start("bad", block_device_mapping=[], image_id=image.id)
    until(lambda: cloud.compute.get_server(server.id).status == "ERROR", "the fault", PATIENCE)
    assert "without a partition table" in str(cloud.compute.get_server(server.id).fault)
    project.delete(server)
    assert not traces(server.id)


@pytest.mark.parametrize("policy", ["soft-anti-affinity", "anti-affinity"])
def test_server_groups(project: Project, policy: str) -> None:
    compute = project.cloud.compute
    group = compute.create_server_group(name=f"{project.prefix}-{policy}", policy=policy)
    project.undo(lambda: compute.delete_server_group(group))
    members = [
        project.start(f"{policy}-{n}", scheduler_hints={"group": group.id}) for n in range(2)
    ]
    for member in members:
        member.wait_until("ACTIVE")
    assert sorted(compute.get_server_group(group).member_ids) == sorted(m.id for m in members)
    project.delete(*members)


def test_a_server_starts_while_others_take_loop_devices(
    project: Project, server: Server, tmp_path: Path
) -> None:
    # A start that loses its loop device to another program loses the server's interface too.
    file = tmp_path / "disk"
    file.write_bytes(bytes(1 << 20))
    taker = subprocess.Popen([sys.executable, "-c", _TAKE_LOOP_DEVICES, str(file)])
    try:
        for _ in range(4):
            project.cloud.compute.stop_server(server.id)
            server.wait_until("SHUTOFF")
            project.cloud.compute.start_server(server.id)
            server.wait_until("ACTIVE")
    finally:
        # Without the file it gives its device back and ends.
        file.unlink()
        taker.wait(timeout=10)
    server.wait_for_ssh()


def test_deleted_servers_leave_nothing(project: Project) -> None:
    servers = [project.start(f"gone-{n}") for n in range(3)]
    volume = project.volume("gone")
    for server in servers:
        server.wait_until("ACTIVE")
    project.cloud.compute.create_volume_attachment(servers[0].id, volume_id=volume.id)
    project.cloud.block_storage.wait_for_status(volume, "in-use", interval=0.3, wait=60)
    assert all(traces(server.id) for server in servers)
    project.delete(*servers)
    for server in servers:
        assert not traces(server.id)
        assert not Path(f"/sys/class/net/tap{server.port.id[:11]}").exists()
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True).stdout
    assert volume.id not in loops


def test_servers_outlive_the_compute_service(server: Server) -> None:
    before = server.boot_id()
    listing = subprocess.run(
        ["ps", "axww", "-o", "pid,args"], capture_output=True, text=True
    ).stdout
    compute = [int(line.split()[0]) for line in listing.splitlines() if "/nova-compute " in line]
    assert compute
    os.kill(compute[0], 15)
    until(lambda: not Path(f"/proc/{compute[0]}").exists(), "nova-compute's end", 60)
    assert server.boot_id() == before
