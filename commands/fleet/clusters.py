"""The state of a cluster, as its API tells it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from cryptography import x509

from commands.kubernetes_api import Administrator, KubeconfigError

# Written by userdata/backup/backup.sh: the time, and `bucket` or `disk`.
BACKUP = "openstack-kubernetes-backup"
_BACKUP_TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Backup:
    """A snapshot of etcd."""

    time: datetime
    place: str
    """`bucket`, or `disk`: that of a control plane, with which it is lost."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Versions, nodes, certificates and backups of a running cluster."""

    kubernetes_version: str
    nodes: int
    """The number of Nodes, and of those that are missing."""
    ready: int
    missing: Sequence[str]
    """The names of machines without a Node."""
    certificates_end: datetime
    """The earlier of two: the end of the API server's certificate, and the administrator's."""
    newest_backup: Backup | None
    """The newest one that its control plane has noted; None if none has."""


def ask(kubeconfig: str, expected: Collection[str]) -> Answer:
    """Ask the API of this kubeconfig; `expected` are the names of all nodes.

    Raises:
        KubeconfigError: if it names no API and no administrator.
        httpx.HTTPError: if the API does not answer, or refuses.
    """
    administrator = Administrator.of(kubeconfig)
    with administrator.client() as api:
        nodes = api.get("/api/v1/nodes").raise_for_status().json()["items"]
        # As a stream, for the connection and its certificate are gone after the answer.
        with api.stream("GET", "/version") as answer:
            connection = answer.extensions["network_stream"].get_extra_info("ssl_object")
            serving = connection.getpeercert(True)
            answer.read()
        version = answer.raise_for_status().json()["gitVersion"]
    certificates = (
        x509.load_der_x509_certificate(serving),
        x509.load_pem_x509_certificate(administrator.certificate.encode()),
    )
    # The cloud controller removes the Node of a server that is gone.
    missing = sorted({*expected} - {node["metadata"]["name"] for node in nodes})
    return Answer(
        kubernetes_version=version,
        nodes=len(nodes) + len(missing),
        missing=missing,
        ready=sum(is_ready(node) for node in nodes),
        certificates_end=min(each.not_valid_after_utc for each in certificates),
        newest_backup=_newest_backup(nodes),
    )


def _newest_backup(nodes: Sequence[Mapping[str, Any]]) -> Backup | None:
    noted = (node["metadata"].get("annotations", {}).get(BACKUP, "") for node in nodes)
    found = [backup for text in noted if (backup := _backup(text)) is not None]
    return max(found, key=lambda backup: backup.time, default=None)


def _backup(text: str) -> Backup | None:
    """The snapshot of such a note; None of any other text, which a node may give itself."""
    time, _, place = text.partition(" ")
    try:
        taken = datetime.strptime(time, _BACKUP_TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Backup(taken, place) if place in ("bucket", "disk") else None


def trouble(error: Exception) -> str:
    """A line about a kubeconfig that leads nowhere, or an API that does not answer or refuses."""
    if isinstance(error, KubeconfigError):
        return str(error)
    if isinstance(error, httpx.HTTPStatusError):
        answer, path = error.response, error.request.url.path
        line = f"its API answers {answer.status_code} {answer.reason_phrase} to {path}"
        return f"{line}: {said}" if (said := _message(answer)) else line
    return " ".join(f"its API does not answer: {error}".split())


def _message(answer: httpx.Response) -> str:
    """The text of a refusal, apart from its status, without what could control a terminal."""
    try:
        text = str(answer.json()["message"])
    except (httpx.StreamError, ValueError, LookupError, TypeError):
        return ""
    line = "".join(each for each in " ".join(text.split()) if each.isprintable())
    return "" if line == answer.reason_phrase else line


def is_ready(node: Mapping[str, Any]) -> bool:
    """True if this Node, or pod, says so."""
    conditions = node["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
