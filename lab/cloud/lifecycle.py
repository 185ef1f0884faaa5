"""Bring the cloud up and take it down."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

import psutil
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lab.cloud import (
    cleanup,
    clouds,
    configs,
    install,
    lock,
    namespace,
    preflight,
    secrets,
    seed,
    status,
    sysctls,
)
from lab.cloud.layout import CLOUD_LOGS, ETC, RUN, TMP
from lab.console import say, step
from lab.errors import LabError
from lab.paths import STATE, ensure

# The first start fills the databases; on two busy cores that takes minutes.
PATIENCE = 1200.0
# Nova finds its own record in the databases by this: it must be the one in the saved databases.
COMPUTE_ID = "6b2f4c1e-35c5-4d6f-9f0e-1ab0c10d0001"


def up(*, fresh: bool = False) -> None:
    """Start the cloud and wait until it is up, also when another command has started it."""
    preflight.check_root()
    if namespace.running():
        say("the cloud is running already")
        _wait()
        return
    # First, because free memory and disk say little while another lab is at work.
    held = lock.acquire()
    try:
        preflight.check_machine()
        install.install()
        preflight.check_kernel()
        # A lab that was killed may have left something behind.
        cleanup.clean()
        if fresh:
            seed.forget()
        initialize = _prepare()
        _start(held, initialize=initialize)
    except BaseException:
        if not namespace.running():
            cleanup.clean()
            lock.release(held)
        raise
    os.close(held)
    _wait()


def _prepare() -> bool:
    """Fill the state folder; return True when the databases have to be created too."""
    for folder in (STATE, RUN, TMP, ETC, STATE / "home", CLOUD_LOGS):
        ensure(folder)
    STATE.chmod(0o700)
    for old in CLOUD_LOGS.glob("*.log"):
        old.unlink()
    restored = seed.restore()
    say("databases: from the saved copy" if restored else "databases: new, which takes minutes")
    made = secrets.load()
    configs.write(made)
    clouds.write(made)
    (ETC / "nova" / "compute_id").write_text(COMPUTE_ID)
    for service in ("glance/images", "nova", "neutron", "cinder"):
        ensure(STATE / service)
    sysctls.remember()
    sysctls.raise_limits()
    return not restored


def _start(held: int, *, initialize: bool) -> None:
    """Start the supervisor in its namespaces; it inherits the lock."""
    command = [sys.executable, "-m", "lab.cloud.supervisor"]
    log = CLOUD_LOGS / "supervisor.log"
    process = namespace.create(
        [*command, "initialize"] if initialize else command, log=log, inherited=held
    )
    try:
        pid = 0
        while not pid and process.poll() is None:
            time.sleep(0.02)
            pid = namespace.init_pid(process.pid)
        if not pid:
            raise LabError(f"the lab's namespaces could not be made: see {log}")
        namespace.remember(pid)
    except BaseException:
        # No one knows of it yet, and it holds the lock.
        process.kill()
        process.wait()
        raise


def _wait() -> None:
    """Wait until everything is ready, and print each unit that becomes ready or fails."""
    seen: set[str] = set()
    failures: dict[str, int] = {}
    deadline = time.monotonic() + PATIENCE
    with step("start the cloud"):
        while True:
            if not namespace.running():
                raise LabError(
                    f"the supervisor has ended: see {CLOUD_LOGS / 'supervisor.log'}; "
                    "`.venv/bin/python -m lab cloud down` cleans up"
                )
            units = status.units()
            for unit in units:
                if unit.ready and unit.name not in seen:
                    seen.add(unit.name)
                    say(f"{len(seen):2}/{len(units)} {unit.name} {unit.state}")
                if unit.restarts > failures.get(unit.name, 0):
                    failures[unit.name] = unit.restarts
                    say(f"{unit.name} {unit.reason} (trying again; log: {unit.log})")
            if units and all(unit.ready for unit in units):
                break
            if time.monotonic() > deadline:
                waiting = ", ".join(unit.name for unit in units if not unit.ready)
                raise LabError(
                    f"not up after {PATIENCE:.0f} s: {waiting}; read the logs in {CLOUD_LOGS}, "
                    "then wait again with `.venv/bin/python -m lab cloud up`, or stop it with "
                    "`.venv/bin/python -m lab cloud down`"
                )
            time.sleep(0.2)
    say("the cloud is up: `.venv/bin/python -m lab run -- openstack ...`, or `... -m lab shell`")


def down() -> None:
    """End every process of the lab and remove what it made."""
    if os.geteuid() != 0:
        raise LabError("the lab runs as root: take it down as root, too")
    pid = namespace.running()
    if pid:
        with step("stop the cloud"), contextlib.suppress(psutil.NoSuchProcess):
            supervisor = psutil.Process(pid)
            # The kernel ends every process of the namespace with its first one.
            supervisor.send_signal(signal.SIGKILL)
            try:
                supervisor.wait(timeout=60)
            except psutil.TimeoutExpired:
                raise LabError(f"process {pid} does not end: look at what it waits for") from None
    # The lock is free when the last process that inherited it has ended.
    for attempt in Retrying(
        retry=retry_if_exception_type(LabError),
        reraise=True,
        stop=stop_after_delay(15 if pid else 1),
        wait=wait_fixed(0.2),
    ):
        with attempt:
            held = lock.acquire()
    cleanup.clean()
    lock.release(held)
    say("the cloud is down; only the cache is left")
