"""The last successful update of the stack, and what it means for this one."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

import pulumi
from tenacity import retry, stop_after_delay, wait_fixed

from components import refused_changes
from components.key_rotation import KeyRotation
from components.last_outputs import LastOutputs
from components.pki import Pki
from components.zones import cinder_has_zones_of_nodes
from config.models.cluster import Cluster

# Ends of the names of the commands that run when a machine leaves.
_ON_LEAVING = ("-membership", "-handover")
# How long the state may be in the middle of being written; it takes milliseconds.
_READING_SECONDS = 10


class LastUpdate:
    """The last successful update of the stack, and the checks that compare with it."""

    def __init__(self, stack: str, last: pulumi.Output[LastOutputs]) -> None:
        self._stack = stack
        self._last = last

    @staticmethod
    def of_this_stack() -> LastUpdate:
        """Read the stack's own last outputs; before the first successful update there are none."""
        stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
        return LastUpdate(stack, pulumi.Output.from_input(_last_outputs(stack)))

    def machines(self, cluster: Cluster) -> pulumi.Output[AbstractSet[str]]:
        """The names of the machines that exist, which change in order.

        Control planes that a failed update has made count as well, or several would leave etcd at
        the same time. Before the first successful update there is no machine that others rely on.
        """
        control_planes = frozenset(cluster.control_plane_names)

        def existing(last: LastOutputs) -> pulumi.Input[AbstractSet[str]]:
            if not last.machines or control_planes <= last.machines:
                return last.machines
            return self._in_state.apply(lambda names: last.machines | (control_planes & names))

        return self._last.apply(existing)

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

    def ssh_key_rotation(self, cluster: Cluster, pki: Pki) -> pulumi.Output[KeyRotation]:
        """The part of this update in the rotation of the SSH key."""

        # In a preview, the newest one may still have to be made.
        private = [key.private for key in pki.ssh_keys]
        return pulumi.Output.all(self._last, *private).apply(
            lambda values: self._key_rotation(
                "the SSH key", values[0].ssh_key_generation(values[1:]), len(private), cluster
            ),
            run_with_unknowns=True,
        )

    def host_key_rotation(self, cluster: Cluster) -> pulumi.Output[KeyRotation]:
        """The part of this update in the rotation of the SSH host keys."""
        newest = cluster.rotation.host_keys
        return self._last.apply(
            lambda last: self._key_rotation("the SSH host keys", last.host_keys, newest, cluster)
        )

    def _key_rotation(
        self, what: str, last: int | None, newest: int, cluster: Cluster
    ) -> pulumi.Input[KeyRotation]:
        def rotation(in_state: AbstractSet[str]) -> KeyRotation:
            found = KeyRotation.after(last, newest, in_state - set(cluster.machine_names))
            found.announce(what)
            return found

        # The state is long, and most updates need not know it.
        return rotation(frozenset()) if last in (None, newest) else self._in_state.apply(rotation)

    @cached_property
    def _in_state(self) -> pulumi.Output[AbstractSet[str]]:
        return pulumi.Output.from_input(_machines_in_state(self._stack))

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

    def check_ssh_keys(self, pki: Pki) -> None:
        """Refuse, in a preview, a key other than the one that machines got at their first boot.

        An update continues: only a person knows whether the machines have been given the new one.
        """
        if pulumi.runtime.is_dry_run():
            keys = [key.private for key in pki.ssh_keys]
            pulumi.Output.all(self._last, *keys).apply(
                lambda values: refused_changes.check_ssh_key(*values), run_with_unknowns=True
            )


# The engine writes the state all the time, and one in a folder is missing for a moment then.
_persistently = retry(stop=stop_after_delay(_READING_SECONDS), wait=wait_fixed(0.1), reraise=True)


@_persistently
async def _last_outputs(stack: str) -> LastOutputs:
    """Read what a StackReference would read."""
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:readStackOutputs", {"name": stack})
    return LastOutputs.of(answer["outputs"])


@_persistently
async def _machines_in_state(stack: str) -> AbstractSet[str]:
    """Read the names of the machines that an update would have to let go, or has failed to.

    The outputs do not have the latter: they are written although a drain fails at the end.
    """
    of_all = "pulumi:pulumi:readStackResourceOutputs"
    answer = await pulumi.runtime.invoke_async(of_all, {"stackName": stack})
    names = [urn.rpartition("::")[2] for urn in answer["outputs"]]
    return {name.removesuffix(end) for end in _ON_LEAVING for name in names if name.endswith(end)}
