"""The outputs of the stack's last good update, and the changes that they rule out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pulumi
from tenacity import retry, stop_after_delay, wait_fixed

from components.authorities import Phase
from components.pki import Pki
from config import immutable
from config.errors import MISSING, ConfigError, Fault
from config.kubernetes_version import check_version_change
from config.models.cluster import Cluster

# The outputs that are not secret.
_READ = (
    *("nodes", "gateways", "kubernetesVersion", "immutableSettings", "hostKeys"),
    "certificateAuthorities",
)
_ETCD_VOLUME = "controlPlane.etcdVolume"
_ZONES = "controlPlane.availabilityZones"
_ANY_ZONE = "whichever zone the cloud chooses"
_FOLLOWING = {
    Phase.ISSUE: Phase.USE,
    Phase.USE: Phase.FORGET,
    Phase.DONE: Phase.DONE,
}
# How long the state may be in the middle of being written; it takes milliseconds.
_READING_SECONDS = 10


def immutable_settings(cluster: Cluster) -> dict[str, str]:
    """The output that the next update compares with; volumes of etcd neither go nor move."""
    if cluster.control_plane.etcd_volume is None:
        return dict(cluster.immutable_settings)
    zones = ",".join(_zones(cluster))
    return {**cluster.immutable_settings, _ETCD_VOLUME: "true", _ZONES: zones}


class PreviousOutputs:
    """The machines of the last good update, and what the checks compare with."""

    def __init__(
        self,
        names: pulumi.Output[frozenset[str]],
        kubernetes_version: pulumi.Output[str | None],
        ssh_key_sum: pulumi.Output[str | None],
        immutable_settings: pulumi.Output[Mapping[str, str]],
        host_keys: pulumi.Output[int | None],
        authorities: pulumi.Output[tuple[int, str] | None],
    ) -> None:
        self.names = names
        self._immutable_settings = immutable_settings
        self._kubernetes_version = kubernetes_version
        self._ssh_key_sum = ssh_key_sum
        self._host_keys = host_keys
        self._authorities = authorities

    @staticmethod
    def of_this_stack() -> PreviousOutputs:
        """Read the stack's own last outputs; before the first good update there are none."""
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
            last.apply(lambda outputs: outputs.get("immutableSettings") or {}),
            last.apply(_host_keys),
            last.apply(_authorities),
        )

    def check_name(self, cluster: Cluster) -> pulumi.Output[None]:
        """Refuse another cluster name, which the cloud checks would take for a new cluster."""
        return self.names.apply(lambda names: _check_name(names, cluster))

    def check(
        self, cluster: Cluster, after: pulumi.Output[None]
    ) -> pulumi.Output[list[pulumi.Resource]]:
        """Refuse a configuration that would make another cluster of this one.

        The engine shows this error instead of one of the cloud checks, which name more faults: they
        come first. The result is for `depends_on`, or an update without preview would begin.
        """
        wanted = cluster.kubernetes_version
        checked: pulumi.Output[Any] = pulumi.Output.all(
            after,
            self._kubernetes_version.apply(lambda previous: check_version_change(previous, wanted)),
            self._immutable_settings.apply(lambda previous: _check_settings(previous, cluster)),
            pulumi.Output.all(self._host_keys, self.names).apply(
                lambda previous: _check_host_keys(previous[0], previous[1], cluster)
            ),
        )
        return checked.apply(lambda _: [])

    def ssh_keys_in_use(self, pki: Pki, machines: Sequence[str]) -> pulumi.Output[Sequence[str]]:
        """The earlier SSH keys, if the last good update did not end with the newest one.

        A machine that leaves would be drained with the last update's key, when none accepts it.
        """
        newest, earlier = pki.ssh_keys[-1], pki.ssh_keys[:-1]
        found: pulumi.Output[Sequence[str]] = pulumi.Output.all(
            self._ssh_key_sum, self.names, newest.private, *(key.public for key in earlier)
        ).apply(lambda values: _in_use(values[0], values[1] - set(machines), values[2], values[3:]))
        return found

    def host_keys_in_use(self, newest: int) -> pulumi.Output[Sequence[int]]:
        """The earlier generations of host keys that the last update's commands may ask for."""
        return self._host_keys.apply(lambda shown: list(range(shown or 1, newest)))

    def authorities_phase(self, cluster: Cluster) -> pulumi.Output[str]:
        """The phase of the newest certificate authorities: the one behind the last good update's.

        Raises (in the output):
            ConfigError: the number does not follow the last one, or that rotation is not done.
        """
        newest = cluster.rotation.certificate_authorities

        def phase(last: tuple[int, str] | None) -> str:
            found = _phase(last, newest)
            found.announce(newest)
            return found.value

        return self._authorities.apply(phase)

    def check_ssh_key(self, keys: Sequence[pulumi.Output[str]]) -> None:
        """Refuse, in a preview, a key other than the one that machines got at their first boot.

        An update continues: only a person knows whether the machines have been given the new one.
        """
        if pulumi.runtime.is_dry_run():
            pulumi.Output.all(self._ssh_key_sum, *keys).apply(
                lambda values: _check_ssh_key(*values), run_with_unknowns=True
            )


@retry(stop=stop_after_delay(_READING_SECONDS), wait=wait_fixed(0.1), reraise=True)
async def _last_outputs(stack: str) -> Mapping[str, Any]:
    """Read what a StackReference would read, but more than once if need be.

    The engine writes the state all the time, and one in a folder is missing for a moment then.
    """
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:readStackOutputs", {"name": stack})
    outputs = answer["outputs"]
    key = outputs.get("sshPrivateKey")
    # The others are secrets, which are in the clear here.
    return {
        **{name: outputs.get(name) for name in _READ},
        "sshKeySum": None if key is None else _sum(key),
    }


def _check_name(machines: frozenset[str], cluster: Cluster) -> None:
    """Refuse another cluster name: every resource is known by it."""
    ending = cluster.node_name("control-plane", 0).removeprefix(cluster.cluster_name)
    if not machines or f"{cluster.cluster_name}{ending}" in machines:
        return
    before = min((name.removesuffix(ending) for name in machines if name.endswith(ending)), key=len)
    problem = (
        f"the cluster of this stack is {before}; under another name all of it would be deleted and "
        f"recreated; set {before}, or create a new stack"
    )
    raise ConfigError([Fault("clusterName", cluster.cluster_name, problem)])


def _check_settings(previous: Mapping[str, str], cluster: Cluster) -> None:
    """Refuse what `cloud.checks.immutable` refuses, and other zones, without asking the cloud."""
    faults = list(immutable.faults(previous, cluster.immutable_settings))
    if _ETCD_VOLUME in previous and cluster.control_plane.etcd_volume is None:
        problem = "etcd's data is on volumes, which would be deleted; set the key again"
        faults.append(Fault(_ETCD_VOLUME, MISSING, problem))
    # Earlier releases do not say the zones.
    elif _ZONES in previous:
        faults += _other_zones(previous[_ZONES].split(","), cluster)
    if faults:
        raise ConfigError(faults)


def _zones(cluster: Cluster) -> list[str]:
    """The zone of each control plane; empty where the cloud chooses."""
    servers, count = cluster.control_plane_servers, cluster.control_plane_count
    return [servers.availability_zone(index) or "" for index in range(count)]


def _other_zones(before: Sequence[str], cluster: Cluster) -> Iterator[Fault]:
    """The first control plane that would leave the zone of its etcd volume, which stays there."""
    # New control planes get new volumes, and those of the ones that leave go with them.
    for index, (made_in, wanted) in enumerate(zip(before, _zones(cluster), strict=False)):
        if made_in != wanted:
            name = cluster.node_name("control-plane", index)
            problem = (
                f"the etcd volume of {name} was made in {made_in or _ANY_ZONE}, and its server "
                f"would move to {wanted or _ANY_ZONE}; set the key back, or move to a new cluster"
            )
            value = ", ".join(cluster.control_plane.availability_zones) or MISSING
            yield Fault(_ZONES, value, problem)
            return


def _host_keys(outputs: Mapping[str, Any]) -> int | None:
    """The generation of the host keys that all servers show; earlier releases do not say it."""
    if not outputs.get("nodes"):
        return None
    return int(outputs.get("hostKeys") or 1)


def _check_host_keys(shown: int | None, machines: AbstractSet[str], cluster: Cluster) -> None:
    """Refuse a number that no connection of the last update's commands could follow."""
    wanted = cluster.rotation.host_keys
    leaving = machines - set(cluster.machine_names)
    if shown is None or shown == wanted:
        return
    if wanted < shown:
        problem = f"it must never go back; set it to {shown} or more"
    elif wanted > shown + 1:
        problem = f"the servers show {shown}: set it to {shown + 1}, pulumi up, and then go on"
    elif leaving:
        problem = _cannot_leave(leaving)
    else:
        return
    raise ConfigError([Fault("rotation.hostKeys", wanted, problem)])


def _authorities(outputs: Mapping[str, Any]) -> tuple[int, str] | None:
    """Generation and phase of the certificate authorities; earlier releases do not say them."""
    if not outputs.get("nodes"):
        return None
    said = outputs.get("certificateAuthorities") or {"generation": 1, "phase": Phase.DONE}
    return int(said["generation"]), str(said["phase"])


def _phase(last: tuple[int, str] | None, newest: int) -> Phase:
    if last is None:
        return Phase.DONE
    generation, phase = last
    if newest == generation:
        return _FOLLOWING[Phase(phase)]
    if newest == generation + 1 and phase == Phase.DONE:
        return Phase.ISSUE
    if newest < generation:
        problem = f"it must never go back; set it to {generation} or more"
    elif phase != Phase.DONE:
        problem = f"the rotation to {generation} is not done: set it to {generation}, pulumi up"
    else:
        problem = f"the cluster has {generation}: set it to {generation + 1} first"
    raise ConfigError([Fault("rotation.certificateAuthorities", newest, problem)])


def _cannot_leave(machines: AbstractSet[str]) -> str:
    return (
        f"{', '.join(sorted(machines))} cannot leave in the same update: set the number of "
        "machines to what it was, pulumi up, and then lower it"
    )


def _in_use(
    known: str | None, leaving: AbstractSet[str], newest: str, earlier: Sequence[str]
) -> Sequence[str]:
    if not earlier or known == _sum(newest):
        return []
    if leaving:
        raise ConfigError([Fault("rotation.sshKey", len(earlier) + 1, _cannot_leave(leaving))])
    return earlier


def _check_ssh_key(known: str | None, *keys: object) -> None:
    # A key that is still to be made, in place of one that left the configuration, is no text.
    if known is None or any(isinstance(key, str) and known == _sum(key) for key in keys):
        return
    problem = (
        "this is not the text of the key that the machines got; set that one again (or the number "
        "rotation.sshKey, which must never go back), or see 'Your own SSH key' in "
        "docs/operations.md"
    )
    raise ConfigError([Fault("sshPrivateKey", MISSING, problem)])


def _sum(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
