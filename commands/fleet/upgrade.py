"""Upgrades of several clusters: all are previewed, then one wave follows the other.

Nothing is noted anywhere: an upgrade that was interrupted learns from the states and the clusters
which of them are done.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from commands import previews
from commands.errors import CommandError
from commands.fleet import health
from commands.fleet.operated import AGENT, Operated, OperatedError
from commands.fleet.stacks import (
    StackError,
    configuration_file,
    namespaces,
    outputs,
    state,
    unfinished,
)
from commands.fleet.threads import AT_A_TIME, Result, attempted, of_each, threads
from commands.local_backend import Locks, local_locks
from commands.private_file import private_folder, write_private
from commands.pulumi_cli import PulumiError, last_update, pulumi

_KEY = "kubernetesVersion"
_NO_CLUSTER = "has no cluster"


class UpgradeError(CommandError):
    """The upgrade has stopped; the text says where and why, and what to do."""


def remaining(
    stacks: Sequence[str],
    version: str,
    check: Sequence[str] | None,
    operated: Operated,
    console: Console,
    *,
    named: bool,
) -> list[str]:
    """The clusters that are not healthy at the version, or whose last update failed.

    Raises:
        UpgradeError: if the state of one cannot be read, someone else updates it, a stack that was
            `named` has no cluster, or the check fails for one that is healthy at the version: that
            may be what the last run stopped at.
    """
    locks = local_locks()
    found = _of_each(
        stacks, "Asking", console, lambda each: _left_alone(each, version, operated, locks)
    )
    for stack, reason in found.items():
        if reason is None:
            continue
        if named and reason == _NO_CLUSTER:
            raise UpgradeError(
                f"{stack} {reason}: run `pulumi up` for it, or do not name it; nothing was changed"
            )
        if check is not None and reason != _NO_CLUSTER:
            with console.status(f"checking {stack}"):
                problem = _problem(stack, version, check)
            if problem is not None:
                raise UpgradeError(f"{stack} {reason}, but {problem}; nothing was changed")
        _say(console, f"left alone: {stack} {reason}")
    return [stack for stack, reason in found.items() if reason is None]


def preview(stacks: Sequence[str], version: str, console: Console) -> None:
    """Preview all upgrades, and show how many resources each would change.

    Raises:
        UpgradeError: if one of the previews fails.
    """
    found = _of_each(
        stacks, "Previewing", console, lambda each: _preview(each, version), previews.AT_A_TIME
    )
    for stack, counted in found.items():
        what = ", ".join(f"{operation} {count}" for operation, count in counted.items())
        _say(console, f"{stack}: {what or 'nothing to change'}")


def run(
    stacks: Sequence[str],
    version: str,
    wave: int,
    check: Sequence[str] | None,
    operated: Operated,
    console: Console,
) -> None:
    """Upgrade so many clusters at a time, the next ones only if all of them are healthy.

    Args:
        check: a command that must succeed for each cluster, with its KUBECONFIG.
        operated: the clusters whose updates the operator of an admin cluster runs.

    Raises:
        UpgradeError: if one is not healthy.
    """
    waves = _waves(stacks, wave, operated)
    for number, now in enumerate(waves, 1):
        later = [stack for each in waves[number:] for stack in each]
        for stack in now:
            log = operated.log(stack) if stack in operated else _log(stack)
            _say(console, f"{stack}: upgrading, {log} has the output")
        with console.status("upgrading"):
            failures = _updates(now, version, operated)
        problems = []
        # Not in threads, which an interruption would wait for.
        for stack in now:
            with console.status(f"checking {stack}"):
                problem = failures[stack] or _problem(stack, version, check)
            _say(console, f"{stack}: {problem or f'healthy at {version}'}")
            problems += [stack] if problem else []
        if problems:
            raise UpgradeError(
                f"stopped at {', '.join(problems)}; not begun: {', '.join(later) or 'none'}. "
                "When it is repaired, run the same command again: it continues"
            )


def _of_each(
    stacks: Sequence[str],
    title: str,
    console: Console,
    act: Callable[[str], Result],
    at_a_time: int = AT_A_TIME,
) -> Mapping[str, Result]:
    """The result for each stack, before anything is changed."""
    found: dict[str, Result] = {}
    problems: list[str] = []
    results = of_each(stacks, attempted(act), console, title=title, at_a_time=at_a_time)
    for stack, result in zip(stacks, results, strict=True):
        if isinstance(result, CommandError):
            problems.append(f"{stack}: {str(result).strip()}")
        else:
            found[stack] = result
    if problems:
        raise UpgradeError("\n".join([*problems, "nothing was changed"]))
    return found


def _waves(stacks: Sequence[str], wave: int, operated: Operated) -> Sequence[Sequence[str]]:
    """So many at a time; the admin cluster alone at the end: its update drains the operator."""
    others = [stack for stack in stacks if stack != operated.admin]
    waves = [others[start : start + wave] for start in range(0, len(others), wave)]
    return waves if len(others) == len(stacks) else [*waves, [str(operated.admin)]]


def _left_alone(stack: str, version: str, operated: Operated, locks: Locks) -> str | None:
    """The reason why a cluster needs no upgrade; None if it needs one."""
    deployment = state(stack)
    # The operator lets one update end before it begins another.
    if stack not in operated and (update := unfinished(stack, deployment, locks)) is not None:
        raise UpgradeError(update)
    try:
        known = outputs(stack)
    except StackError:
        return _NO_CLUSTER
    last = last_update("--stack", stack)
    versions = {known.get(_KEY)}
    if stack in operated:
        versions.add(operated.configuration(stack).get(_KEY))
    elif (last.get("environment") or {}).get("exec.agent", "").startswith(AGENT):
        raise UpgradeError(
            "its last update was that of an operator, which would take the version back: name its "
            "admin cluster with `--admin`, or run `pulumi up` if you have taken the cluster back"
            if operated.admin is None
            else f"its last update was that of an operator, but {operated.admin} has no Stack for "
            "it with this project and backend: compare its spec with `pulumi whoami --json`"
        )
    if last.get("result") != "succeeded" or versions != {version}:
        return None
    faults = health.faults(known, namespaces(deployment), version)
    return None if faults else f"is healthy at {version}"


def _preview(stack: str, version: str) -> Mapping[str, int]:
    configuration = configuration_file(stack)
    if not configuration.exists():
        raise UpgradeError(f"{configuration} is missing: run this where you run `pulumi up`")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(configuration, folder))
        _set_version(stack, version, copy)
        return previews.changes(stack, "--config-file", str(copy))


def _set_version(stack: str, version: str, file: Path) -> None:
    pulumi("config", "set", _KEY, version, "--stack", stack, "--config-file", str(file))


def _log(stack: str) -> Path:
    return Path(f"{stack.replace('/', '-')}-upgrade.log")


def _updates(stacks: Sequence[str], version: str, operated: Operated) -> Mapping[str, str | None]:
    """Update all of them at the same time; returns the failure of each, or None."""
    here = [stack for stack in stacks if stack not in operated]
    theirs = [stack for stack in stacks if stack in operated]
    with threads(len(stacks)) as pool:
        ended = pool.map(lambda stack: _update(stack, version), here)
        failures = {stack: _request(stack, version, operated) for stack in theirs}
        failures |= zip(here, ended, strict=True)
    asked = [stack for stack in theirs if failures[stack] is None]
    # Not in threads, which an interruption would wait for.
    return {**failures, **operated.failures(asked)}


def _request(stack: str, version: str, operated: Operated) -> str | None:
    """Have the operator update it; returns why it was not asked, or None."""
    try:
        # What the next `commands.fleet add` reads.
        _set_version(stack, version, configuration_file(stack))
        operated.request(stack, {_KEY: version})
    except (OperatedError, PulumiError) as error:
        return str(error).strip()
    return None


def _update(stack: str, version: str) -> str | None:
    """Run `pulumi up`; returns its failure, or None.

    It writes to a file and hears of no closed terminal, so it also comes to its end when this
    process is killed, or the connection to this machine is lost.
    """
    up = ["up", "--yes", "--skip-preview", "--non-interactive", "--stack", stack]
    try:
        _set_version(stack, version, configuration_file(stack))
    except PulumiError as error:
        return str(error).strip()
    # What an earlier run has failed at is still in it.
    with _log(stack).open("a") as log:
        status = subprocess.run(  # noqa: S603 - the CLI, as the operator runs it
            ["nohup", "pulumi", *up],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        ).returncode
    return None if status == 0 else f"`pulumi up` failed: {_log(stack)} says why"


def _problem(stack: str, version: str, check: Sequence[str] | None) -> str | None:
    """All that keeps an upgraded cluster from being healthy, in one line; or None."""
    try:
        known = outputs(stack)
        faults = health.settled_faults(known, namespaces(state(stack)), version)
    except (PulumiError, StackError) as error:
        return str(error).strip()
    if faults:
        return f"not healthy: {'; '.join(faults)}"
    if check is not None and not _passes(check, known["kubeconfig"], _log(stack)):
        return f"`{shlex.join(check)}` failed: {_log(stack)} says why"
    return None


def _passes(check: Sequence[str], kubeconfig: str, log: Path) -> bool:
    with private_folder() as folder, log.open("a") as output:
        file = folder / "kubeconfig"
        write_private(file, kubeconfig)
        try:
            result = subprocess.run(  # noqa: S603 - as the user asks
                check,
                env={**os.environ, "KUBECONFIG": str(file)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            )
        except OSError as error:
            output.write(f"{error}\n")
            return False
    return result.returncode == 0


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
