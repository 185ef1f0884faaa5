"""The list of all clusters, each read and asked at the same time as the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import httpx
from pydantic.alias_generators import to_camel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands import previews
from commands.fleet.clusters import Answer, ask, trouble
from commands.fleet.stacks import (
    StackError,
    configuration_file,
    outputs,
    state,
    unfinished,
)
from commands.fleet.threads import AT_A_TIME, of_each
from commands.kubernetes_api import KubeconfigError
from commands.local_backend import Locks, local_locks
from commands.previews import PreviewError
from commands.pulumi_cli import PulumiError, last_update


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A cluster of the list; what is not known is None, and `problems` say why, a line each."""

    name: str
    cluster_id: str | None = None
    endpoint: str | None = None
    host_cidr: str | None = None
    pod_cidr: str | None = None
    service_cidr: str | None = None
    program_version: str | None = None
    kubernetes_version: str | None = None
    nodes: int | None = None
    ready: int | None = None
    certificates_end: str | None = None
    newest_backup: str | None = None
    newest_backup_place: str | None = None
    last_update: str | None = None
    last_update_result: str | None = None
    drift: bool | None = None
    problems: Sequence[str] = ()

    def as_json(self) -> Mapping[str, Any]:
        """The fields as programs read them."""
        return {to_camel(key): value for key, value in asdict(self).items()}


def entries(stacks: Sequence[str], console: Console, *, drift: bool) -> list[Entry]:
    """An entry for each stack, in this order; the console shows how many are done.

    With `drift`, each is also compared with its configuration and the cloud, by a preview.
    """
    locks = local_locks()
    return of_each(
        stacks,
        lambda stack: _entry(stack, locks, drift),
        console,
        at_a_time=previews.AT_A_TIME if drift else AT_A_TIME,
    )


def _entry(stack: str, locks: Locks, drift: bool) -> Entry:
    problems: list[str] = []
    update: Mapping[str, Any] = {}
    known: Mapping[str, Any] | None = None
    try:
        update = last_update("--stack", stack)
        if (line := unfinished(stack, state(stack), locks)) is not None:
            problems.append(line)
        known = outputs(stack)
    except StackError as error:
        problems.insert(0, error.problem)
    except PulumiError as error:
        problems.append(_line(f"its state cannot be read: {error}"))
    ended = update.get("endTime")
    entry = Entry(
        name=stack,
        last_update=_minute(datetime.fromisoformat(ended)) if ended else None,
        last_update_result=update.get("result"),
        problems=problems,
    )
    return entry if known is None else _asked(entry, known, drift)


def _asked(entry: Entry, known: Mapping[str, Any], drift: bool) -> Entry:
    """The entry with what the stack's outputs, its cluster and the cloud say."""
    problems = [*entry.problems]
    answer: Answer | None = None
    try:
        answer = ask(known["kubeconfig"], [each["name"] for each in known["nodes"]])
        problems += [f"the node {name} is missing" for name in answer.missing]
    except (httpx.HTTPError, KubeconfigError) as error:
        problems.append(trouble(error))
    drifted: bool | None = None
    if drift:
        try:
            drifted = _has_drifted(entry.name)
        except PreviewError as error:
            problems.append(_line(f"its drift is not known: {error}"))
    backup = answer.newest_backup if answer else None
    networks = known["immutableSettings"]
    return replace(
        entry,
        cluster_id=known.get("clusterId"),
        endpoint=known["apiEndpoint"],
        host_cidr=networks["hostCidr"],
        pod_cidr=networks.get("podCidr"),
        service_cidr=networks.get("serviceCidr"),
        program_version=known["version"],
        kubernetes_version=answer.kubernetes_version if answer else None,
        nodes=answer.nodes if answer else None,
        ready=answer.ready if answer else None,
        certificates_end=_minute(answer.certificates_end) if answer else None,
        newest_backup=_minute(backup.time) if backup else None,
        newest_backup_place=backup.place if backup else None,
        drift=drifted,
        problems=problems,
    )


def _has_drifted(stack: str) -> bool:
    # A preview would write a file without a configuration, and compare with the defaults.
    if not (file := configuration_file(stack)).exists():
        raise PreviewError(f"{file} is missing: run this where you run `pulumi up`")
    return bool(previews.changes(stack, "--refresh"))


def _line(text: str) -> str:
    return " ".join(text.split())


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%MZ}"


def table(found: Sequence[Entry], *, drift: bool) -> Table:
    """The entries as a table."""
    made = Table(box=None, pad_edge=False)
    for title in (
        "NAME",
        "KUBERNETES",
        "READY",
        "ENDPOINT",
        "HOST CIDR",
        "CERTIFICATES END",
        "NEWEST BACKUP",
        "LAST UPDATE",
        *(["DRIFT"] if drift else []),
    ):
        made.add_column(title, no_wrap=True)
    for each in found:
        values = (
            each.name,
            each.kubernetes_version,
            None if each.nodes is None else f"{each.ready}/{each.nodes}",
            each.endpoint,
            each.host_cidr,
            each.certificates_end,
            _backup(each),
            each.last_update and f"{each.last_update_result} {each.last_update}",
            *([{None: None, True: "yes", False: "no"}[each.drift]] if drift else []),
        )
        made.add_row(*(Text(value or "-") for value in values))
    return made


def _backup(entry: Entry) -> str | None:
    if entry.newest_backup is not None:
        return f"{entry.newest_backup} {entry.newest_backup_place}"
    # A cluster that does not answer may have some.
    return None if entry.nodes is None else "none"
