"""Copies of a cluster's kubeconfig, and what the API lets their users do."""

from __future__ import annotations

from pathlib import Path

from commands.private_file import write_private
from lab.cluster import Cluster, run


def copied(cluster: Cluster, name: str) -> Path:
    """Copy the administrator's kubeconfig as it is now; returns the copy's path."""
    copy = cluster.stack.folder / name
    write_private(copy, cluster.kubeconfig.read_text())
    return copy


def user_of(kubeconfig: Path) -> str:
    """The user that the API takes this kubeconfig for; empty if it is refused."""
    whoami = ("kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    return run(*whoami, check=False, KUBECONFIG=str(kubeconfig))


def may_do_everything(kubeconfig: Path) -> bool:
    """True if the cluster takes the user of this kubeconfig for an administrator."""
    asked = ("kubectl", "auth", "can-i", "*", "*", "--all-namespaces")
    answer = run(*asked, check=False, KUBECONFIG=str(kubeconfig)).strip()
    assert answer in ("yes", "no")
    return answer == "yes"
