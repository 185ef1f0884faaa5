"""bake.sh: the machine that becomes an image keeps its programs, and nothing of its own."""

from __future__ import annotations

import pytest

from tests.scripts.conftest import Machine

LOG = "var/log/cloud-init.log"
OWN = (
    "etc/ssh/ssh_host_ed25519_key",
    "etc/ssh/ssh_host_ed25519_key.pub",
    "home/debian/.bash_history",
    "home/debian/.ssh/authorized_keys",
    "root/.bash_history",
    "root/.ssh/authorized_keys",
    "var/lib/apt/lists/debian",
    "var/lib/cloud/instance/user-data.txt",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "var/tmp/download",
)
STAYS = ("etc/ssh/sshd_config", "home/debian/.profile", "usr/bin/kubelet")


@pytest.fixture
def used(machine: Machine) -> Machine:
    """A machine that was used to make the image."""
    for path in (*OWN, *STAYS, LOG, "etc/machine-id"):
        machine.place(path, "of this machine\n")
    return machine


def test_nothing_of_the_machine_itself_is_in_the_image(used: Machine) -> None:
    result = used.run("install/bake.sh")
    assert result.status == 0, result
    used.order("fake-install kubectl", "fake-install metrics", "fake-install all")
    assert [path for path in OWN if used.has(path)] == []
    # cloud-init makes a new ID for an empty one.
    assert [used.read(path) for path in (LOG, "etc/machine-id")] == ["", ""]
    assert [path for path in STAYS if not used.has(path)] == []
    assert not used.called("ctr")
    assert used.called("systemctl -q disable haproxy keepalived kubelet")


def test_images_of_the_folder_are_preloaded_and_pinned(used: Machine) -> None:
    for name in ("a.tar", "b.tar", "notes.txt"):
        used.write(f"archives/{name}", "")
    assert used.run("install/bake.sh", "archives").status == 0
    imports = used.called("images import")
    assert [line.rpartition("/")[2] for line in imports] == ["a.tar", "b.tar"]
    assert all("--label io.cri-containerd.pinned=pinned" in line for line in imports)


@pytest.mark.parametrize(
    ("folder", "error"),
    [("missing", "missing is not a folder"), ("lib", "no image archives (*.tar) in lib")],
)
def test_a_folder_without_images_is_named(used: Machine, folder: str, error: str) -> None:
    result = used.run("install/bake.sh", folder)
    assert result.status == 1
    assert error in result.log
    # It is still the machine that it was.
    assert [path for path in OWN if not used.has(path)] == []
