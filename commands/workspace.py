"""Runs an update in a workspace of Pulumi's operator: `python -m commands.workspace pulumi up ...`.

Updates wait for each other. What a killed one of this workspace left behind is repaired first.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO

# Held as long as an update runs: Pulumi inherits it, and may outlive this process.
_LOCK = "pulumi-update.lock"
# In the message of backends that are buckets: the number of locks, and the machine that has each.
_LOCKS = re.compile(r"currently locked by (\d+) lock")
_HOLDER = re.compile(r"created by \S*@(\S+) \(pid \d+\)")


def main() -> int:
    """Run the command line, and once more after a repair; returns its exit status."""
    command = sys.argv[1:]
    heard: list[int] = []
    with Path(tempfile.gettempdir(), _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, said = _update(command, lock, heard)
        locked = status != 0 and left_behind(said, socket.gethostname())
        # Whoever has interrupted it meanwhile wants no other update.
        if locked and _recover(command) == 0 and not heard:
            status, said = _update(command, lock, heard)
        sys.stderr.write(said)
    return status


def left_behind(said: str, machine: str) -> bool:
    """True if Pulumi said that the stack is locked, and every lock is of this machine."""
    locks, holders = _LOCKS.search(said), _HOLDER.findall(said)
    return locks is not None and holders == [machine] * int(locks[1])


def _update(command: Sequence[str], lock: IO[str], heard: list[int]) -> tuple[int, str]:
    """The exit status and standard error; signals that are heard are passed on to Pulumi."""
    # A file: with a pipe, Pulumi would die with its reader.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        running: list[subprocess.Popen[bytes]] = []

        def interrupt(number: int, _: FrameType | None) -> None:
            heard.append(number)
            for process in running:
                process.send_signal(number)

        # Before there is anything to interrupt: the signal must not end this process alone.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, interrupt)
        process = subprocess.Popen(  # noqa: S603 - the operator's
            command, stderr=said, pass_fds=[lock.fileno()]
        )
        before = heard.copy()
        running.append(process)
        for number in before:
            process.send_signal(number)
        status = process.wait()
        said.seek(0)
        return status, said.read()


def _recover(command: Sequence[str]) -> int:
    arguments = ["--yes"]
    if "--stack" in command:
        arguments += ["--stack", command[command.index("--stack") + 1]]
    # The operator reads standard output as that of the update.
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "commands.recover", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        env=os.environ,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
