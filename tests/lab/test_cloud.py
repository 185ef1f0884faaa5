"""The running cloud: services, status, `lab run`, one lab on a machine. Needs root.

A cloud that is down is started first and taken down at the end. Set LAB_MAY_GO_DOWN=1 to test as
well that `lab cloud down` leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lab.cloud import namespace, status
from lab.cloud.layout import BRIDGE, CGROUP
from lab.cloud.lock import LOCK
from lab.cloud.unit_status import UnitStatus
from lab.paths import CACHE, PROJECT, STATE
from lab.until import until
from tests.lab import machine

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab runs as root")


def lab(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab", *words]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, **{"capture_output": True, "text": True, "env": environment, **options}
    )


@pytest.fixture(scope="module", autouse=True)
def cloud() -> Iterator[None]:
    was_up = bool(namespace.running())
    result = lab("cloud", "up")
    assert result.returncode == 0, result.stderr
    yield
    if not was_up:
        lab("cloud", "down")


def unit(name: str) -> UnitStatus:
    return next(found for found in status.units() if found.name == name)


def test_status_says_that_everything_is_up() -> None:
    result = lab("status")
    assert result.returncode == 0
    assert "everything is up" in result.stdout
    for name in (
        "keystone",
        "glance-api",
        "placement",
        "nova-compute",
        "neutron-l3-agent",
        "cinder-volume",
        "mariadb",
        "rabbitmq",
    ):
        assert name in result.stdout


@pytest.mark.parametrize(
    "command",
    ["token issue", "flavor list", "image list", "network list", "server list", "volume list"],
)
def test_every_api_answers_the_tenant(command: str) -> None:
    result = lab("run", "--", "openstack", *command.split(), "-f", "json")
    assert result.returncode == 0, result.stderr
    json.loads(result.stdout)


def test_run_keeps_folder_streams_and_exit_status(tmp_path: Path) -> None:
    result = lab(
        "run",
        "--",
        "sh",
        "-c",
        "pwd; cat; echo bad >&2; exit 7",
        cwd=tmp_path,
        input="from outside\n",
    )
    assert (result.returncode, result.stdout) == (7, f"{tmp_path}\nfrom outside\n")
    assert result.stderr == "bad\n"


def test_run_sets_what_clients_need() -> None:
    result = lab("run", "--", "sh", "-c", "echo $OS_CLOUD; cat $OS_CLIENT_CONFIG_FILE")
    assert result.stdout.startswith("lab\n")
    assert "auth_url" in result.stdout
    assert STATE.stat().st_mode & 0o777 == 0o700


def test_run_without_a_command_says_how() -> None:
    result = lab("run")
    assert result.returncode == 1
    assert "lab run -- COMMAND" in result.stderr


def test_a_command_ends_with_the_lab_run_that_started_it() -> None:
    marker = "86399.125"
    with subprocess.Popen(
        [sys.executable, "-m", "lab", "run", "--", "sleep", marker], cwd=PROJECT
    ) as outer:

        def sleeping() -> list[psutil.Process]:
            return [
                p
                for p in psutil.process_iter(["cmdline"])
                if p.info["cmdline"] == ["sleep", marker]
            ]

        until(sleeping, "the command", 10)
        outer.send_signal(signal.SIGTERM)
        outer.wait(timeout=10)
    psutil.wait_procs(sleeping(), timeout=5)
    assert not sleeping()


def test_a_killed_service_is_restarted_and_status_says_so() -> None:
    before = unit("memcached")
    assert lab("run", "--", "kill", "-9", str(before.pid)).returncode == 0

    def back() -> bool:
        now = unit("memcached")
        return now.restarts > before.restarts and now.ready

    until(back, "memcached back", 60)
    assert unit("memcached").pid != before.pid
    assert "ended with status -9" in lab("status").stdout


def test_status_says_which_service_runs_and_does_not_answer() -> None:
    # With its workers: a service and its children are a process group.
    group = f"-{unit('glance-api').pid}"
    assert lab("run", "--", "kill", "-STOP", "--", group).returncode == 0
    try:
        result = lab("status")
    finally:
        assert lab("run", "--", "kill", "-CONT", "--", group).returncode == 0
    assert result.returncode == 1
    assert "not up: glance-api" in result.stdout
    assert "runs, but does not answer at http" in result.stdout
    assert lab("status").returncode == 0


def test_up_is_idempotent() -> None:
    before = namespace.running()
    result = lab("cloud", "up")
    assert result.returncode == 0
    assert "running already" in result.stderr
    assert namespace.running() == before


@pytest.mark.parametrize("action", ["up", "down"])
def test_a_second_lab_on_the_machine_is_refused(tmp_path: Path, action: str) -> None:
    before = namespace.running()
    environment = {**os.environ, "OPENSTACK_KUBERNETES_LAB_CACHE": str(tmp_path)}
    result = lab("cloud", action, env=environment, cwd=PROJECT)
    assert result.returncode == 1
    assert "another lab is at work on this machine (process" in result.stderr
    assert str(CACHE) in result.stderr
    assert namespace.running() == before


def test_the_host_is_untouched() -> None:
    names = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not {name for name in names if name.startswith((BRIDGE, "brq", "tap", "vxlan-"))}
    assert not list(Path("/run/netns").glob("q*"))
    assert str(STATE) not in Path("/proc/self/mounts").read_text()
    # The bridge with the lab's APIs exists inside the lab only.
    assert lab("run", "--", "ip", "-brief", "address", "show", BRIDGE).stdout.startswith(BRIDGE)


def test_an_unknown_name_fails_at_once() -> None:
    began = time.monotonic()
    assert lab("run", "--", "getent", "hosts", "no-such-name.invalid").returncode != 0
    assert time.monotonic() - began < 3


@pytest.mark.skipif("LAB_MAY_GO_DOWN" not in os.environ, reason="LAB_MAY_GO_DOWN is not set")
def test_down_leaves_the_machine_as_it_was() -> None:
    go_down(killed=False)
    before = machine.picture()
    assert lab("cloud", "up").returncode == 0
    # Settings that a server's kubelet and systemd change.
    for setting in (
        "kernel.panic=11",
        "kernel.panic_on_oops=1",
        "vm.overcommit_memory=1",
        "kernel.keys.root_maxkeys=1000001",
        "kernel.core_pattern=core.lab",
    ):
        assert lab("run", "--", "sysctl", "-q", "-w", setting).returncode == 0
    assert lab("expose").returncode == 0
    assert machine.changed(before, machine.picture())
    go_down(killed=True)
    assert machine.changed(before, machine.picture()) == {}
    assert lab("cloud", "up").returncode == 0


def go_down(*, killed: bool) -> None:
    """Take the cloud down, perhaps after its supervisor was killed; only the cache is left."""
    supervisor = psutil.Process(namespace.running())
    processes = [supervisor, *supervisor.children(recursive=True)]
    if killed:
        supervisor.kill()
        psutil.wait_procs(processes, timeout=10)
        assert "has ended by itself" in lab("status").stdout
    result = lab("cloud", "down")
    assert result.returncode == 0, result.stderr
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not alive
    assert not STATE.exists()
    assert not LOCK.exists()
    assert not list(Path("/sys/fs/cgroup").rglob(CGROUP))
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True).stdout
    assert str(CACHE) not in loops
    assert lab("status").returncode == 3
    assert lab("cloud", "down").returncode == 0
