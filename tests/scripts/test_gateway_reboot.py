"""reboot/reboot.sh: one gateway at a time, the backups first, and never the last healthy one."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from addons.monitoring.alerts import REBOOT_METRIC
from tests.scripts.conftest import COMMON, Machine

GATEWAY = {
    **COMMON,
    "ROLE": "gateway",
    "NODE_NAME": "demo-gateway-1",
    "NODE_IP": "10.8.0.12",
    "VIP": "10.8.0.10",
    "PEERS": "10.8.0.11 10.8.0.13",
    "REBOOT_DAYS": "sa su",
    "REBOOT_START": "01:00",
    "REBOOT_END": "05:00",
    "REBOOT_TIME_ZONE": "UTC",
}
REBOOT = "systemctl reboot"
METRICS = "var/lib/openstack-kubernetes/metrics/reboot.prom"


@pytest.fixture
def gateway(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A backup that requires a reboot, on a Saturday at half past one; all are healthy."""

    def make(now: str = "Sat 01:30", *, active: bool = False, **values: str) -> Machine:
        machine = make_machine({**GATEWAY, **values})
        shutil.copy(machine.fakes / "fake", machine.fakes / "date")
        machine.answer("^date ", f"{now}\n")
        machine.environment["HAND_OVER_TIMEOUT"] = "1"
        machine.place("run/reboot-required", "*** System restart required ***\n")
        if active:
            machine.answer("^ip .* address show to 10.8.0.10/32", "2: eth7 inet 10.8.0.10/22\n")
        return machine

    return make


def rebooted(machine: Machine) -> bool:
    result = machine.run("reboot/reboot.sh", "check")
    assert result.status == 0, result
    return REBOOT in machine.calls


def test_a_backup_goes_while_all_others_are_healthy(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    assert rebooted(machine)
    machine.order("http://10.8.0.11:8405/healthz", "http://10.8.0.13:8405/healthz", REBOOT)
    assert not machine.called("keepalived")


def test_nothing_happens_when_no_update_asks_for_it(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    (machine.root / "run/reboot-required").unlink()
    assert not rebooted(machine)
    assert not machine.calls
    assert machine.read(METRICS).endswith(f"\n{REBOOT_METRIC} 0\n")


def test_a_reboot_that_something_is_in_the_way_of_is_reported(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway("Mon 01:30")
    assert not rebooted(machine)
    assert machine.read(METRICS).endswith(f"\n{REBOOT_METRIC} 1\n")


def test_a_metric_that_cannot_be_written_is_in_the_way_of_no_reboot(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway()
    machine.place(str(Path(METRICS).parent))
    assert rebooted(machine)


@pytest.mark.parametrize(
    ("now", "start", "end", "goes"),
    [
        ("Sat 00:59", "01:00", "05:00", False),
        ("Sat 05:01", "01:00", "05:00", False),
        ("Sun 04:59", "1:00", "5:00", True),
        ("Mon 01:30", "01:00", "05:00", False),
        ("Sat 08:09", "08:00", "09:09", True),
    ],
)
def test_only_in_the_maintenance_window(
    gateway: Callable[..., Machine], now: str, start: str, end: str, goes: bool
) -> None:
    assert rebooted(gateway(now, REBOOT_START=start, REBOOT_END=end)) is goes


def test_a_time_zone_that_is_not_there_is_named(gateway: Callable[..., Machine]) -> None:
    machine = gateway(REBOOT_TIME_ZONE="Mars/Olympus")
    result = machine.run("reboot/reboot.sh", "check")
    assert result.status == 1
    assert "does not know the time zone Mars/Olympus" in result.log


@pytest.mark.parametrize("active", [True, False])
def test_never_while_another_gateway_is_down(gateway: Callable[..., Machine], active: bool) -> None:
    machine = gateway(active=active)
    machine.answer("^curl .*10.8.0.13:8405", status=7)
    assert not rebooted(machine)
    assert "waiting for the gateway 10.8.0.13" in machine.journal


def test_a_backup_waits_until_the_active_one_serves(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.answer("^curl .*10.8.0.10:8405/healthz", status=7)
    assert not rebooted(machine)


def test_none_goes_while_the_api_is_down(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    machine.answer("^curl .*127.0.0.1:6443/readyz", status=22)
    assert not rebooted(machine)


def test_the_active_one_lets_the_backups_go_first(gateway: Callable[..., Machine]) -> None:
    machine = gateway("Sat 01:24", active=True)
    assert not rebooted(machine)
    assert not machine.called("keepalived")


def test_the_active_one_hands_the_address_over_before_it_goes(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway("Sat 01:25", active=True)
    # Held until keepalived is stopped.
    machine.answer("^ip .* address show to 10.8.0.10/32")
    machine.answer("^ip .* address show to 10.8.0.10/32", "2: eth7 inet 10.8.0.10/22\n", times=2)
    assert rebooted(machine)
    machine.order("systemctl stop keepalived.service", "http://10.8.0.10:8405/healthz", REBOOT)


def test_the_active_one_stays_when_none_takes_over(gateway: Callable[..., Machine]) -> None:
    machine = gateway("Sat 02:00", active=True)
    machine.answer("^curl .*10.8.0.10:8405/healthz", status=7)
    assert not rebooted(machine)
    machine.order("systemctl stop keepalived.service", "systemctl start keepalived.service")
    # One interruption a day is enough.
    assert not rebooted(machine)
    assert not machine.called("keepalived")


def test_the_only_gateway_goes_at_once(gateway: Callable[..., Machine]) -> None:
    assert rebooted(gateway("Sat 01:00", active=True, PEERS=""))


def test_a_run_of_the_program_is_not_interrupted(gateway: Callable[..., Machine]) -> None:
    machine = gateway()
    with machine.place("run/lock/openstack-kubernetes-membership").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not rebooted(machine)
    assert rebooted(machine)


def test_ssh_to_this_machine_or_through_it_is_not_interrupted(
    gateway: Callable[..., Machine],
) -> None:
    machine = gateway("Sat 02:00", active=True)
    machine.answer("^ss ", "0 0 10.8.0.11:51012 10.8.0.21:22\n")
    assert not rebooted(machine)
    assert "waiting until no one is working" in machine.journal
    (asked,) = machine.called("ss -")
    assert "state established ( sport = :22 or dport = :22 )" in asked
    assert not machine.called("keepalived")


@pytest.mark.parametrize("signal", [9, 15])
def test_a_gateway_whose_hand_over_was_ended_serves_again(
    gateway: Callable[..., Machine], signal: int
) -> None:
    machine = gateway("Sat 02:00", active=True)
    machine.answer("^systemctl stop keepalived", does=f"os.kill(os.getppid(), {signal})", times=1)
    machine.run("reboot/reboot.sh", "check")
    # Neither this gateway has the VIP, nor does another one.
    machine.answer("^curl .*10.8.0.10:8405/healthz", status=7)
    machine.answer("^ip .* address show to 10.8.0.10/32")
    machine.run("reboot/reboot.sh", "check")
    assert machine.called("systemctl start keepalived")
    machine.run("reboot/reboot.sh", "check")
    assert not machine.called("systemctl start keepalived")
