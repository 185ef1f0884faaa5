"""Policies that say who may reach the pods of an add-on's namespace."""

from collections.abc import Sequence
from typing import Any

from pulumi_kubernetes.meta.v1 import LabelSelectorArgs
from pulumi_kubernetes.networking.v1 import (
    NetworkPolicyIngressRuleArgs,
    NetworkPolicyPeerArgs,
    NetworkPolicySpecArgs,
)

NAME = "default"


def from_pods(namespaces: Sequence[str]) -> NetworkPolicySpecArgs:
    """Let in the pods of the same namespace and of these, and no others."""
    own = NetworkPolicyPeerArgs(pod_selector=LabelSelectorArgs())
    others = [
        NetworkPolicyPeerArgs(
            namespace_selector=LabelSelectorArgs(
                match_labels={"kubernetes.io/metadata.name": other}
            )
        )
        for other in namespaces
    ]
    return NetworkPolicySpecArgs(
        pod_selector=LabelSelectorArgs(),
        policy_types=["Ingress"],
        ingress=[NetworkPolicyIngressRuleArgs(from_=[own, *others])],
    )


def from_nodes(node_port_target: int | None) -> dict[str, Any]:
    """Let in the nodes, a CiliumNetworkPolicy: the API server passes users' requests on.

    To Cilium a node is no address: no NetworkPolicy can name it. What comes to a pod through a
    NodePort is from outside to Cilium, whoever sent it.
    """
    ingress: list[dict[str, Any]] = [{"fromEntities": ["host", "remote-node"]}]
    if node_port_target is not None:
        port = {"port": str(node_port_target), "protocol": "TCP"}
        ingress.append({"fromEntities": ["world"], "toPorts": [{"ports": [port]}]})
    return {"endpointSelector": {}, "ingress": ingress}
