"""The list of all clusters, each read and asked at the same time as the others."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from commands.fleet.clusters import Answer, ask
from commands.fleet.stacks import StackError, last_update, outputs
from commands.kubernetes_api import KubeconfigError
from commands.pulumi_cli import PulumiError

# Each waits for a program of Pulumi's, which takes half a core for a second.
_AT_A_TIME = 8


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A cluster of the list; what is not known is None, and `problem` says why."""

    name: str
    cluster_id: str | None = None
    endpoint: str | None = None
    host_cidr: str | None = None
    program_version: str | None = None
    kubernetes_version: str | None = None
    nodes: int | None = None
    ready: int | None = None
    certificates_end: str | None = None
    last_update: str | None = None
    last_update_result: str | None = None
    problem: str | None = None


def entries(stacks: Sequence[str], console: Console) -> list[Entry]:
    """An entry for each stack, in this order; the console shows how many are done."""
    with ThreadPoolExecutor(max_workers=_AT_A_TIME) as threads:
        asked = {threads.submit(_entry, stack): stack for stack in stacks}
        done = track(
            as_completed(asked), "Asking the clusters", len(asked), console=console, transient=True
        )
        found = {asked[each]: each.result() for each in done}
    return [found[stack] for stack in stacks]


def _entry(stack: str) -> Entry:
    try:
        known = outputs(stack)
        update = last_update(stack) or {}
    except StackError as error:
        return Entry(name=stack, problem=str(error))
    except PulumiError as error:
        return Entry(name=stack, problem=f"its state cannot be read: {error}")
    answer: Answer | None = None
    problem = None
    try:
        answer = ask(known["kubeconfig"])
    except (httpx.HTTPError, KubeconfigError) as error:
        problem = f"its API does not answer: {error}"
    return Entry(
        name=stack,
        cluster_id=known.get("clusterId"),
        endpoint=known["apiEndpoint"],
        host_cidr=known["immutableSettings"]["hostCidr"],
        program_version=known["version"],
        kubernetes_version=answer.kubernetes_version if answer else None,
        nodes=answer.nodes if answer else None,
        ready=answer.ready if answer else None,
        certificates_end=_minute(answer.certificates_end) if answer else None,
        last_update=update.get("endTime"),
        last_update_result=update.get("result"),
        problem=problem,
    )


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%MZ}"


def table(found: Sequence[Entry]) -> Table:
    """The entries as a table, followed by a line for each problem."""
    made = Table(box=None, pad_edge=False)
    for title in (
        "NAME",
        "KUBERNETES",
        "READY",
        "ENDPOINT",
        "HOST CIDR",
        "CERTIFICATES END",
        "LAST UPDATE",
    ):
        made.add_column(title, no_wrap=True)
    for each in found:
        made.add_row(
            *(
                Text(value or "-")
                for value in (
                    each.name,
                    each.kubernetes_version,
                    None if each.nodes is None else f"{each.ready}/{each.nodes}",
                    each.endpoint,
                    each.host_cidr,
                    each.certificates_end,
                    each.last_update and f"{each.last_update_result} {each.last_update}",
                )
            )
        )
    return made
