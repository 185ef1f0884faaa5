"""Runs an update in a workspace of Pulumi's operator: `python -m commands.workspace pulumi up ...`.

Updates wait for each other. What a killed one of this workspace left behind is repaired first, and
what a failed one left behind when it ends. A destroy does without the program, whose checks could
refuse a cluster that never came up.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from pydantic import TypeAdapter, ValidationError

# Held as long as an update runs: Pulumi inherits it, and may outlive this process.
_LOCK = "pulumi-update.lock"
# To an older copy of the state, what an update would create may be a living cluster.
_KILLED, _FAILED = ("--yes", "--only-begun"), "--unattended"
# In the message of backends that are buckets: the number of locks, and the machine that has each.
_LOCKS = re.compile(r"currently locked by (\d+) lock")
# The option of a destroy that runs the program; the operator's agent writes the second form.
_PROGRAM = ("--run-program", "--run-program=true")
_HOLDER = re.compile(r"created by \S*@(\S+) \(pid \d+\)")


@dataclass(frozen=True)
class CommandLine:
    """A command line of Pulumi, and what it says about the stack."""

    cli: str
    words: Sequence[str]
    verb: str
    stack: Sequence[str]
    config_file: Sequence[str]

    @staticmethod
    def of(cli: str, *words: str) -> CommandLine:
        """Read the options in each of the forms that Pulumi takes."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("-s", "--stack")
        parser.add_argument("--config-file")
        found, others = parser.parse_known_args(words)
        return CommandLine(
            cli,
            words,
            # The operator puts options before it.
            verb=next((word for word in others if not word.startswith("-")), ""),
            stack=["--stack", found.stack] if found.stack else [],
            config_file=["--config-file", found.config_file] if found.config_file else [],
        )


def main() -> int:
    """Run the command line, and once more after a repair; returns its exit status."""
    command = CommandLine.of(*sys.argv[1:])
    heard: list[int] = []
    with Path(tempfile.gettempdir(), _LOCK).open("w") as lock:
        try:
            _wait_for_turn(lock)
        except KeyboardInterrupt:
            return 130
        status, said = _run(command, lock, heard)
        locked = status != 0 and left_behind(said, socket.gethostname())
        # Whoever has interrupted it meanwhile wants no other update.
        if locked and _recover(command, *_KILLED) == 0 and not heard:
            status, said = _run(command, lock, heard)
        sys.stderr.write(said)
        # The operator tries it again. Whoever holds a lock is at work: nothing is left behind then.
        if status != 0 and command.verb == "up" and not heard and not _LOCKS.search(said):
            _recover(command, _FAILED)
    return status


def _wait_for_turn(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waiting for another update in this container", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def left_behind(said: str, machine: str) -> bool:
    """True if Pulumi said that the stack is locked, and every lock is of this machine."""
    locks, holders = _LOCKS.search(said), _HOLDER.findall(said)
    return locks is not None and holders == [machine] * int(locks[1])


def _run(command: CommandLine, lock: IO[str], heard: list[int]) -> tuple[int, str]:
    """The exit status and standard error of an update."""
    cli, words = command.cli, command.words
    without = [word for word in words if word not in _PROGRAM]
    if command.verb != "destroy" or len(without) == len(words):
        return _update([cli, *words], lock, heard)
    status, said = 0, ""
    # What the program would have done to a protected cluster.
    if _off(_configured(command, "deletionProtection")):
        unprotect = [cli, "state", "unprotect", "--all", "--yes", "--non-interactive"]
        status, said = _update([*unprotect, *command.stack], lock, heard, stdout=sys.stderr)
    if status == 0 and not heard:
        status, said = _update([cli, *without], lock, heard)
    return status, said


def _off(value: str) -> bool:
    """True for the words that the program takes for `false`."""
    try:
        return not TypeAdapter(bool).validate_python(value)
    except ValidationError:
        return False


def _configured(command: CommandLine, key: str) -> str:
    """The value in the stack's configuration; empty if it has none."""
    return subprocess.run(  # noqa: S603
        [command.cli, "config", "get", key, *command.stack, *command.config_file],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


def _update(
    command: Sequence[str], lock: IO[str], heard: list[int], stdout: IO[str] | None = None
) -> tuple[int, str]:
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
            command, stdout=stdout, stderr=said, pass_fds=[lock.fileno()]
        )
        before = heard.copy()
        running.append(process)
        for number in before:
            process.send_signal(number)
        status = process.wait()
        said.seek(0)
        return status, said.read()


def _recover(command: CommandLine, *how: str) -> int:
    arguments = [*how, *command.stack, *command.config_file]
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
