"""What the stack's last good update left behind, and what may not become of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pulumi
from tenacity import retry, stop_after_delay, wait_fixed

from config.errors import MISSING, ConfigError, Fault
from config.kubernetes_version import check_version_change
from config.models.cluster import Cluster

# How long the state may be in the middle of being written; it takes milliseconds.
_READING_SECONDS = 10


class PreviousOutputs:
    """The names of its machines, and what the checks compare."""

    def __init__(
        self,
        names: pulumi.Output[frozenset[str]],
        kubernetes_version: pulumi.Output[str | None],
        ssh_key_sum: pulumi.Output[str | None],
    ) -> None:
        self.names = names
        self._kubernetes_version = kubernetes_version
        self._ssh_key_sum = ssh_key_sum

    @staticmethod
    def of_this_stack() -> PreviousOutputs:
        """Read from the stack's own last outputs; nothing before the first good update."""
        stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
        last: pulumi.Output[Mapping[str, Any]] = pulumi.Output.from_input(_last_outputs(stack))
        return PreviousOutputs(
            last.apply(
                lambda outputs: frozenset(
                    machine["name"]
                    for key in ("nodes", "gateways")
                    for machine in outputs.get(key) or ()
                )
            ),
            last.apply(lambda outputs: outputs.get("kubernetesVersion")),
            last.apply(lambda outputs: outputs.get("sshKeySum")),
        )

    def check(self, cluster: Cluster) -> None:
        """Refuse what would not be this cluster any more; the preview fails then."""
        wanted = cluster.kubernetes_version
        self._kubernetes_version.apply(lambda previous: check_version_change(previous, wanted))
        self.names.apply(lambda names: _check_name(names, cluster))

    def check_ssh_key(self, key: pulumi.Output[str]) -> None:
        """Refuse, in a preview, a key that is not the one the machines got at their first boot.

        An update goes on: only a person knows whether the machines have been told of the new one.
        """
        if pulumi.runtime.is_dry_run():
            pulumi.Output.all(self._ssh_key_sum, key).apply(
                lambda both: _check_ssh_key(*both), run_with_unknowns=True
            )


@retry(stop=stop_after_delay(_READING_SECONDS), wait=wait_fixed(0.1), reraise=True)
async def _last_outputs(stack: str) -> Mapping[str, Any]:
    """What a StackReference asks for; but that does not ask again.

    The engine writes the state all the time, and one in a folder is not there for a moment then.
    """
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:readStackOutputs", {"name": stack})
    outputs = answer["outputs"]
    key = outputs.get("sshPrivateKey")
    # The others are secrets, which are in the clear here.
    return {
        **{name: outputs.get(name) for name in ("nodes", "gateways", "kubernetesVersion")},
        "sshKeySum": None if key is None else _sum(key),
    }


def _check_name(machines: frozenset[str], cluster: Cluster) -> None:
    """Every resource is known by the cluster's name: with another one it is another cluster."""
    ending = cluster.node_name("control-plane", 0).removeprefix(cluster.cluster_name)
    if not machines or f"{cluster.cluster_name}{ending}" in machines:
        return
    before = min((name.removesuffix(ending) for name in machines if name.endswith(ending)), key=len)
    problem = (
        f"the cluster of this stack is {before}; under another name all of it would be deleted and "
        f"made anew; set {before}, or make a new stack"
    )
    raise ConfigError([Fault("clusterName", cluster.cluster_name, problem)])


def _check_ssh_key(known: str | None, key: object) -> None:
    # A key that is still to be made, in the place of one that left the configuration, is no text.
    if known is None or (isinstance(key, str) and known == _sum(key)):
        return
    problem = (
        "this is not the text of the key that the machines got; set that one back, or see "
        "'Another SSH key' in docs/operations.md"
    )
    raise ConfigError([Fault("sshPrivateKey", MISSING, problem)])


def _sum(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
