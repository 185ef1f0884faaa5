"""The context that the components of one cluster share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pulumi

from components.key_rotation import KeyRotation
from components.last_outputs import VOLUME_ZONES, immutable_settings_output
from components.machine_folder import machine_variables
from components.network import Network
from components.pki import Pki
from components.rollout import RolloutOrder
from config.models.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class Context:
    """A cluster's configuration, and what exists before its first machine."""

    cluster: Cluster
    network: Network
    pki: Pki
    rollout: RolloutOrder
    ssh_key_rotation: pulumi.Output[KeyRotation]
    host_key_rotation: pulumi.Output[KeyRotation]
    # Whether volumes are made in the zones of their pods; None without Cinder CSI.
    volume_zones: pulumi.Output[bool] | None

    @property
    def immutable_settings(self) -> Mapping[str, pulumi.Input[str]]:
        """The output of this name, which the next update compares with."""
        zones = self.volume_zones
        return {
            **immutable_settings_output(self.cluster),
            **self.network.immutable_settings,
            **({} if zones is None else {VOLUME_ZONES: pulumi.Output.json_dumps(zones)}),
        }

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The `node.env` keys that are the same on every machine."""
        return machine_variables(self.cluster)
