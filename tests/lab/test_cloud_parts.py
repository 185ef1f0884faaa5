"""Parts of the cloud, without a running one and without a network."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import threading
import time
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from lab.cloud import (
    configs,
    install,
    lock,
    namespace,
    preflight,
    supervisor,
    sysctls,
    unit_status,
)
from lab.cloud.layout import DRIVERS, INSTALL, VENV_BIN
from lab.cloud.secrets import Secrets
from lab.cloud.units import Unit, plan
from lab.errors import LabError


@pytest.mark.parametrize("initialize", [True, False])
def test_units_wait_for_units_that_exist_and_never_in_a_circle(initialize: bool) -> None:
    units = plan(Secrets(), initialize=initialize)
    names = [unit.name for unit in units]
    assert len(names) == len(set(names))
    order = TopologicalSorter({unit.name: unit.after for unit in units})
    assert set(order.static_order()) == set(names)


def test_no_password_is_in_a_command_line() -> None:
    secrets = Secrets()
    words = [word for unit in plan(secrets, initialize=True) for word in unit.command]
    for password in vars(secrets).values():
        assert not [word for word in words if password in word]


def test_each_lab_has_its_own_passwords() -> None:
    assert len({*vars(Secrets()).values(), *vars(Secrets()).values()}) == 12


def test_services_listen_on_loopback_or_on_the_labs_own_bridge() -> None:
    text = "\n".join(t for s in configs.SERVICES for t in s.files(Secrets()).values())
    commands = [word for unit in plan(Secrets(), initialize=False) for word in unit.command]
    assert "0.0.0.0" not in text + " ".join(commands)


def test_without_root_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="run it as root"):
        preflight.check_root()


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=8 << 30))
    with pytest.raises(LabError, match=r"8\.0 GiB of memory"):
        preflight.check_machine()


def test_too_little_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=24 << 30))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    with pytest.raises(LabError, match="OPENSTACK_KUBERNETES_LAB_CACHE"):
        preflight.check_machine()


def test_an_unreachable_registry_is_named_with_the_end_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "LOG", tmp_path / "log")
    with pytest.raises(LabError, match=r"registry reachable(.|\n)*no route to mirror"):
        install.run(["sh", "-c", "echo no route to mirror >&2; exit 1"], "installing OpenStack")


def test_the_patch_is_applied_once_and_refused_on_other_code(tmp_path: Path) -> None:
    path = tmp_path / "amqpdriver.py"
    path.write_text(f"try:\n{install.SLOW}")
    install.patch(path)
    install.patch(path)
    assert path.read_text() == f"try:\n{install.FAST}"
    path.write_text("nothing known\n")
    with pytest.raises(LabError, match="has another version"):
        install.patch(path)


def test_a_second_lab_is_told_who_holds_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "LOCK", tmp_path / "lock")
    held = lock.acquire()
    with pytest.raises(LabError, match=f"process {os.getpid()}, cache folder"):
        lock.acquire()
    lock.release(held)
    assert not lock.LOCK.exists()
    again = lock.acquire()
    # The lock is a real one, of the kernel.
    with lock.LOCK.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.release(again)


def test_a_failure_is_explained_by_the_last_telling_line_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "nova-api.log"
    log.write_text(
        "2026-11-21 12:05:54.777 273 ERROR nova HTTP 401 Unauthorized\n"
        "2026-11-21 12:05:54.777 273 ERROR nova \n"
    )
    assert supervisor.why(1, log).endswith("HTTP 401 Unauthorized")
    assert "killed" in supervisor.why(-9, log)


def test_a_program_that_is_missing_is_the_reason_of_its_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_status, "CLOUD_LOGS", tmp_path)
    monkeypatch.setattr(supervisor, "STATE", tmp_path)
    gone = Unit(name="gone", command=[str(tmp_path / "python3")])
    supervised = supervisor.Supervisor([gone])
    status = supervised._run_once(gone)
    assert "No such file or directory" in supervisor.why(status, supervised.reports["gone"].log)


def test_settings_that_were_raised_or_changed_by_servers_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watches, panic = (tmp_path / n for n in ("fs/inotify/max_user_watches", "kernel/panic"))
    instances = tmp_path / "fs/inotify/max_user_instances"
    for path, value in ((watches, 999_999), (panic, 0), (instances, 128)):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(f"{value}\n")
    monkeypatch.setattr(sysctls, "PROC", tmp_path)
    monkeypatch.setattr(sysctls, "SYSCTL_BEFORE", tmp_path / "before.json")
    assert sysctls.restore() == []
    sysctls.remember()
    sysctls.raise_limits()
    assert (watches.read_text(), instances.read_text()) == ("999999\n", "8192")
    panic.write_text("10")
    # An `up` after an interrupted one must not take the raised values for the original ones.
    sysctls.remember()
    assert sysctls.restore() == []
    assert [int(p.read_text()) for p in (watches, panic, instances)] == [999_999, 0, 128]


def test_a_setting_that_the_kernel_does_not_restore_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysctls, "PROC", tmp_path)
    monkeypatch.setattr(sysctls, "SYSCTL_BEFORE", tmp_path / "before.json")
    (tmp_path / "before.json").write_text('{"kernel/unprivileged_bpf_disabled": "0"}')
    assert sysctls.restore() == ["kernel/unprivileged_bpf_disabled"]


def test_on_cgroup_v2_the_lab_leaves_the_group_of_the_login_that_starts_it() -> None:
    group = "/sys/fs/cgroup/lab-test"
    steps = f"""
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        mkdir {group}
        echo 1 >{group}/cgroup.procs
        grep ^0:: /proc/1/cgroup
        {namespace.JOIN_ROOT_GROUP}
        grep ^0:: /proc/1/cgroup
        rmdir {group}
    """
    namespaces = ["--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run(
        ["unshare", *namespaces, "sh", "-ec", steps], capture_output=True, text=True
    )
    assert (done.stdout.split(), done.stderr) == (["0::/lab-test", "0::/"], "")


def test_a_waiting_unit_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_status, "CLOUD_LOGS", tmp_path)
    monkeypatch.setattr(supervisor, "STATE", tmp_path)
    first = Unit(name="first", command=["sh", "-c", "true"], job=True)
    second = Unit(name="second", command=["sh", "-c", "true"], job=True, after=["first"])
    supervised = supervisor.Supervisor([first, second])
    waiting = threading.Thread(target=supervised._keep, args=(second,))
    waiting.start()
    report = supervised.reports["second"]
    while not report.reason:
        time.sleep(0.01)
    assert (report.state, report.reason) == ("waiting", "waits for first")
    supervised._keep(first)
    waiting.join(timeout=10)
    assert (report.state, report.reason) == ("done", "")


GROUPS = """
from types import SimpleNamespace
from nova import objects
from one_host import ServerGroupAntiAffinityFilter
objects.register_all()
host = SimpleNamespace(host="lab", instances={"first": None})
for policy, rules in (
    ("anti-affinity", {}),
    ("anti-affinity", {"max_server_per_host": 2}),
    ("anti-affinity", {"max_server_per_host": 1}),
    ("soft-anti-affinity", {}),
):
    group = objects.InstanceGroup(policy=policy, members=["first", "second"], rules=rules)
    asked = SimpleNamespace(instance_group=group, instance_uuid="second")
    print(ServerGroupAntiAffinityFilter().host_passes(host, asked))
alone = SimpleNamespace(instance_group=None, instance_uuid="second")
print(ServerGroupAntiAffinityFilter().host_passes(host, alone))
"""


@pytest.mark.skipif(
    not (INSTALL / "complete").exists(), reason="OpenStack is not installed, or not all of it"
)
def test_hard_anti_affinity_is_enforced_only_with_max_server_per_host() -> None:
    result = subprocess.run(
        [VENV_BIN / "python", "-W", "ignore", "-c", GROUPS],
        env={**os.environ, "PYTHONPATH": str(DRIVERS)},
        capture_output=True,
        text=True,
    )
    assert result.stdout.split() == ["True", "True", "False", "True", "True"], result.stderr
