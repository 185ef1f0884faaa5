"""The stacks of the backend, each a cluster, as Pulumi's CLI tells of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from commands.errors import CommandError
from commands.kubernetes_api import Administrator
from commands.local_backend import Locks, folder
from commands.pulumi_cli import backend_url, project, pulumi

# The state of a stack in a folder, next to copies of it and attributes.
_STATE = re.compile(r"(.+?)\.json(?:\.gz|\.zst)?")
# How many signs of an update to name.
_SHOWN = 3
_NAMESPACE = "kubernetes:core/v1:Namespace"


class StackError(CommandError):
    """The stack has no cluster."""

    def __init__(self, stack: str) -> None:
        # For a list that names the stack itself.
        self.problem = "has no cluster: it never came up, or it was destroyed"
        super().__init__(f"{stack} {self.problem}")


def names() -> list[str]:
    """The names of all stacks of this project.

    Raises:
        PulumiError: if there is no login, or the backend does not answer.
        CommandError: if there is no Pulumi.yaml.
    """
    local = folder(backend_url())
    if local is None:
        return sorted(each["name"] for each in json.loads(pulumi("stack", "ls", "--json")))
    # The CLI would read every state, and one that is half written would hide all others.
    files = (local / "stacks" / project()).glob("*")
    return sorted({match[1] for file in files if (match := _STATE.fullmatch(file.name))})


def outputs(stack: str) -> Mapping[str, Any]:
    """The outputs of a stack, secret ones in the clear.

    Raises:
        PulumiError: if there is no such stack, or it cannot be decrypted.
        StackError: if there are none.
    """
    text = pulumi("stack", "output", "--json", "--show-secrets", "--stack", stack)
    found: dict[str, Any] = json.loads(text)
    if "kubeconfig" not in found:
        raise StackError(stack)
    return found


def administrator(stack: str, kubeconfig: Path | None) -> Administrator:
    """The administrator of a cluster.

    Args:
        stack: its stack.
        kubeconfig: a kubeconfig of it; without it, that of its stack.

    Raises:
        OSError, PulumiError, StackError, KubeconfigError: if nothing tells a way into it.
    """
    if kubeconfig is not None:
        return Administrator.of_file(kubeconfig)
    return Administrator.of(outputs(stack)["kubeconfig"])


def configuration_file(stack: str) -> Path:
    """The configuration of a stack, in the checkout."""
    return Path(f"Pulumi.{stack.rpartition('/')[2]}.yaml")


def state(stack: str) -> Mapping[str, Any]:
    """The `deployment` of a stack's exported state: its resources and pending operations."""
    exported = json.loads(pulumi("stack", "export", "--stack", stack))
    found: dict[str, Any] = exported["deployment"]
    return found


def namespaces(deployment: Mapping[str, Any]) -> Collection[str]:
    """The namespaces of the cluster's own pods: those of the add-ons, and Kubernetes' own."""
    made = {
        each["inputs"]["metadata"]["name"]
        for each in deployment.get("resources") or ()
        if each["type"] == _NAMESPACE
    }
    return {"kube-system", *made}


def unfinished(stack: str, deployment: Mapping[str, Any], locks: Locks) -> str | None:
    """A line about the update that is at work on a stack, or was killed; None if there is none."""
    held = [locks[stack]] if stack in locks else []
    pending = [
        f"{each['type']} {each['resource']['urn'].rsplit('::', 1)[1]}"
        for each in deployment.get("pending_operations") or ()
    ]
    if not (signs := [*held, *pending][:_SHOWN]):
        return None
    return (
        f"an update is at work on it, or was killed ({', '.join(signs)}): let it end, or see "
        "'A run that failed or was interrupted' in docs/operations.md"
    )
