"""CoreDNS, which kubeadm installs and the control planes' script places."""

from __future__ import annotations

from math import ceil

from config.models.cluster import Cluster

# As many as Kubernetes' own autoscaler of CoreDNS has by default.
_NODES_PER_REPLICA = 16


def coredns_variables(cluster: Cluster) -> dict[str, str]:
    """The `node.env` keys of control planes that place CoreDNS."""
    return {
        "COREDNS_REPLICAS": str(coredns_replicas(cluster)),
        "NODE_DNS": str(cluster.addons.node_dns_installed).lower(),
    }


def coredns_replicas(cluster: Cluster) -> int:
    """The number of pods that the nodes need: at least two if they fit on separate nodes."""
    # It tolerates the taint of control planes, but not those of pools.
    workers = cluster.nodes_for_every_pod
    nodes = cluster.control_plane_count + workers
    return min(nodes, max(2, ceil(nodes / _NODES_PER_REPLICA)))
