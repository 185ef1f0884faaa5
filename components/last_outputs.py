"""The outputs that the last successful update has left for the next one, and what it writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from config.models.cluster import Cluster

# Networks are noted by their IDs, because names may change.
EXISTING_NETWORK = "existingNetwork.network"
EXTERNAL_NETWORK = "externalNetwork"
ETCD_VOLUME = "controlPlane.etcdVolume"
ZONES = "controlPlane.availabilityZones"
# Not a key: whether volumes are made in the zones of their pods.
VOLUME_ZONES = "volumeZones"


@dataclass(frozen=True, kw_only=True)
class LastOutputs:
    """The outputs of the last successful update, as far as a change is judged by them."""

    machines: frozenset[str]
    """The names of all machines; none before the first successful update."""
    node_at: Mapping[str, str]
    """The name of each node by its address."""
    floating_ip: str | None
    """The address that connections of the last update's commands lead to."""
    kubernetes_version: str | None
    ssh_key_checksum: str | None
    immutable_settings: Mapping[str, str]
    host_keys: int | None
    """The generation that all servers show; none before there are any."""
    authorities: tuple[int, str] | None
    """The generation and the phase of the newest certificate authorities, if there are any."""

    @staticmethod
    def of(outputs: Mapping[str, Any]) -> LastOutputs:
        """Take what is compared, and only the checksum of the SSH key, from the stack's outputs."""
        nodes, gateways = outputs.get("nodes") or (), outputs.get("gateways") or ()
        authorities = outputs.get("certificateAuthorities") if nodes else None
        ssh_key = outputs.get("sshPrivateKey")
        return LastOutputs(
            machines=frozenset(machine["name"] for machine in (*nodes, *gateways)),
            node_at={node["address"]: node["name"] for node in nodes},
            floating_ip=urlsplit(outputs.get("apiEndpoint") or "").hostname,
            kubernetes_version=outputs.get("kubernetesVersion"),
            ssh_key_checksum=ssh_key and _checksum(ssh_key),
            immutable_settings=outputs.get("immutableSettings") or {},
            host_keys=int(outputs["hostKeys"]) if nodes else None,
            authorities=authorities and (int(authorities["generation"]), authorities["phase"]),
        )

    def ssh_key_generation(self, keys: Sequence[object]) -> int | None:
        """The place of the last update's SSH key among these private keys; 1 is the first one.

        A key that is still to be made, in place of one that left the configuration, is no text.
        """
        for generation, key in enumerate(keys, start=1):
            if isinstance(key, str) and self.ssh_key_checksum == _checksum(key):
                return generation
        return None

    def volume_zones(self, *, found: bool) -> bool:
        """Return what the last update said, or what is found: the first release does not say it."""
        return bool(json.loads(self.immutable_settings.get(VOLUME_ZONES, json.dumps(found))))


def _checksum(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def immutable_settings_output(cluster: Cluster) -> dict[str, str]:
    """The output that the next update compares with; volumes of etcd neither go nor move."""
    if cluster.control_plane.etcd_volume is None:
        return dict(cluster.immutable_settings)
    zones = ",".join(control_plane_zones(cluster))
    return {**cluster.immutable_settings, ETCD_VOLUME: "true", ZONES: zones}


def control_plane_zones(cluster: Cluster) -> list[str]:
    """The zone of each control plane; empty where the cloud chooses."""
    servers, count = cluster.control_plane_servers, cluster.control_plane_count
    return [servers.availability_zone(index) or "" for index in range(count)]
