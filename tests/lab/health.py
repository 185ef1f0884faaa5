"""The health of a highly available cluster, asked of every machine itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from config import ports
from lab.cluster import Cluster, is_ready
from tests.lab.gateways import Gateway

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
QUORUM = ("etcd", "kube-apiserver")
# A request may hang on a node that is gone.
SECONDS = 30


@dataclass(frozen=True)
class Health:
    """A cluster, with its nodes' addresses by their names."""

    cluster: Cluster
    nodes: Mapping[str, str]
    gateways: Sequence[Gateway]

    @staticmethod
    def of(cluster: Cluster, gateways: int) -> Health:
        """The cluster as the stack's outputs describe it."""
        return Health(
            cluster, cluster.addresses(), [Gateway(cluster, index) for index in range(gateways)]
        )

    @property
    def control_planes(self) -> list[str]:
        """The addresses of the control planes."""
        return [a for name, a in self.nodes.items() if "-control-plane-" in name]

    def check(self) -> bool:
        """Assert that no node, gateway or member of a quorum is missing.

        Raises:
            AssertionError: one is; the message says which.
        """
        self._check_nodes()
        # What the API says of a node may be older than a fault: each kubelet is asked.
        for name in self.nodes:
            assert self.kubelet_answers(name), f"the kubelet of {name} does not answer"
        self._check_quorum()
        ask = "; ".join(
            f"curl -sk --noproxy '*' --max-time 3 https://{address}:{ports.API}/readyz"
            for address in self.control_planes
        )
        for gateway in self.gateways:
            said = gateway.ssh(ask)
            assert said == "ok" * len(self.control_planes), f"by gateway {gateway.index}: {said!r}"
        return True

    def kubelet_answers(self, node: str) -> bool:
        """True if the API server reaches this node's kubelet, and it is healthy."""
        path = f"/api/v1/nodes/{node}/proxy/healthz"
        words = ("get", "--raw", path, "--request-timeout=5s")
        return self.cluster.kubectl(*words, check=False, seconds=SECONDS).strip() == "ok"

    def _check_nodes(self) -> None:
        text = self.cluster.kubectl("get", "nodes", "-o", "json", seconds=SECONDS)
        listed = {each["metadata"]["name"]: each for each in json.loads(text)["items"]}
        ready = {name: is_ready(node) for name, node in listed.items()}
        assert ready == dict.fromkeys(self.nodes, True), ready
        # Pressure on a disk ends some time after its cause.
        taints = {
            name: taint["key"]
            for name, node in listed.items()
            for taint in node["spec"].get("taints", [])
            if taint["key"] != CONTROL_PLANE
        }
        assert not taints, taints

    def _check_quorum(self) -> None:
        words = ("get", "pods", "-n", "kube-system", "-l", "tier=control-plane", "-o", "json")
        pods = json.loads(self.cluster.kubectl(*words, seconds=SECONDS))["items"]
        states = {
            pod["metadata"]["name"]: is_ready(pod)
            for pod in pods
            if pod["metadata"]["labels"]["component"] in QUORUM
        }
        assert [*states.values()] == [True] * len(QUORUM) * len(self.control_planes), states
        first = f"{self.cluster.name}-control-plane-0"
        members = self.cluster.etcdctl(first, "endpoint", "health", "--cluster", seconds=SECONDS)
        assert members.count("is healthy") == len(self.control_planes), members
