"""The last successful update of the stack, and what it means for this one."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pulumi
from tenacity import retry, stop_after_delay, wait_fixed

from components import refused_changes
from components.last_outputs import LastOutputs
from components.pki import Pki
from components.zones import cinder_has_zones_of_nodes
from config.models.cluster import Cluster

# How long the state may be in the middle of being written; it takes milliseconds.
_READING_SECONDS = 10


class LastUpdate:
    """The last successful update of the stack, and the checks that compare with it."""

    def __init__(self, last: pulumi.Output[LastOutputs]) -> None:
        self._last = last
        self.names = last.apply(lambda outputs: outputs.machines)

    @staticmethod
    def of_this_stack() -> LastUpdate:
        """Read the stack's own last outputs; before the first successful update there are none."""
        stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
        return LastUpdate(pulumi.Output.from_input(_last_outputs(stack)))

    def check_name(self, cluster: Cluster) -> pulumi.Output[None]:
        """Refuse another cluster name, which the cloud checks would take for a new cluster."""
        return self._last.apply(lambda last: refused_changes.check_name(last, cluster))

    def check(
        self, cluster: Cluster, after: Sequence[pulumi.Output[Any]]
    ) -> pulumi.Output[list[pulumi.Resource]]:
        """Refuse a configuration that would make another cluster of this one.

        The engine shows this error instead of one of the cloud checks, which name more faults: they
        come first. The result is for `depends_on`, or an update without preview would begin, and
        leave keys that nothing may delete.
        """
        checked = self._last.apply(lambda last: refused_changes.check(last, cluster))
        return pulumi.Output.all(*after, checked).apply(lambda _: [])

    def ssh_keys_in_use(self, pki: Pki, machines: Sequence[str]) -> pulumi.Output[Sequence[str]]:
        """The earlier SSH keys, if the last successful update did not end with the newest one.

        A machine that leaves would be drained with the last update's key, when none accepts it.
        """
        newest, earlier = pki.ssh_keys[-1], pki.ssh_keys[:-1]
        found: pulumi.Output[Sequence[str]] = pulumi.Output.all(
            self._last, newest.private, *(key.public for key in earlier)
        ).apply(
            lambda values: refused_changes.ssh_keys_in_use(
                values[0], machines, values[1], values[2:], own=pki.has_own_ssh_key
            )
        )
        return found

    def host_keys_in_use(self, newest: int) -> pulumi.Output[Sequence[int]]:
        """The earlier generations of host keys that the last update's commands may ask for."""
        return self._last.apply(lambda last: list(range(last.host_keys or 1, newest)))

    def authorities_phase(self, cluster: Cluster) -> pulumi.Output[str]:
        """The phase of the newest certificate authorities: the one after the last update's.

        Raises (in the output):
            ConfigError: the number does not follow the last one, or that rotation is not done.
        """
        newest = cluster.rotation.certificate_authorities

        def phase(last: LastOutputs) -> str:
            found = refused_changes.authorities_phase(last, newest)
            found.announce(newest)
            return found.value

        return self._last.apply(phase)

    def check_cluster_id(
        self, cluster: Cluster, own: pulumi.Output[str], of_this_name: AbstractSet[str]
    ) -> None:
        """Refuse, in the preview of a new cluster, the name of another stack's cluster.

        Args:
            cluster: the configuration.
            own: the ID of this stack's cluster; it may be known before the first successful update.
            of_this_name: the IDs of the clusters of this name in the project.
        """
        if pulumi.runtime.is_dry_run():
            pulumi.Output.all(self._last, own).apply(
                lambda values: refused_changes.check_cluster_id(
                    values[0], cluster, own=values[1], of_this_name=of_this_name
                ),
                run_with_unknowns=True,
            )

    def check_network(self, key: str, name: str, found: pulumi.Output[str]) -> pulumi.Output[str]:
        """The network's ID, for all that needs it; an error instead if the cluster is in another.

        Args:
            key: the key of the configuration.
            name: its value.
            found: the ID of the network that has this name now.
        """
        return pulumi.Output.all(self._last, found).apply(
            lambda values: refused_changes.check_network(values[0], key, name, values[1])
        )

    def volume_zones(self, cluster: Cluster) -> pulumi.Output[bool] | None:
        """True if volumes are made in the zones of their pods: as when the cluster was created.

        Volumes that have a zone need nodes that have one, and the cloud's zones may change. None
        without Cinder CSI, whose cloud may have no Cinder to ask.
        """
        if not cluster.addons.cinder_csi.enabled:
            return None
        return pulumi.Output.all(self._last, cinder_has_zones_of_nodes(cluster)).apply(
            lambda values: values[0].volume_zones(found=values[1])
        )

    def check_ssh_keys(self, pki: Pki, machines: Sequence[str]) -> None:
        """Refuse, in a preview, a key other than the one that machines got at their first boot.

        An update continues: only a person knows whether the machines have been given the new one.
        That no machine leaves meanwhile is checked here too, since the new key is not known yet.
        """

        def check(last: LastOutputs, *keys: object) -> None:
            refused_changes.check_ssh_key(last.ssh_key_checksum, *keys)
            refused_changes.check_leaving(last, machines, keys, own=pki.has_own_ssh_key)

        if pulumi.runtime.is_dry_run():
            keys = [key.private for key in pki.ssh_keys]
            pulumi.Output.all(self._last, *keys).apply(
                lambda values: check(*values), run_with_unknowns=True
            )


@retry(stop=stop_after_delay(_READING_SECONDS), wait=wait_fixed(0.1), reraise=True)
async def _last_outputs(stack: str) -> LastOutputs:
    """Read what a StackReference would read, but more than once if need be.

    The engine writes the state all the time, and one in a folder is missing for a moment then.
    """
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:readStackOutputs", {"name": stack})
    return LastOutputs.of(answer["outputs"])
