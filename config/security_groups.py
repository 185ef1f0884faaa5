"""Which machine may talk to which: the security groups' rules as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Roles that own a security group. `node` holds what control planes and workers share.
ROLES = ("gateway", "node", "control-plane", "worker")

# The source of a rule that lets in every address of the machines' subnet.
SUBNET = "subnet"
# What Kubernetes takes the ports of Services from.
NODE_PORTS = (30000, 32767)
# Where a gateway says that its HAProxy lives, and how HAProxy does.
GATEWAY_STATUS_PORT = 8405
NODE_EXPORTER_PORT = 9100
# What Prometheus asks: role, port, whose metrics.
METRICS = (
    ("gateway", GATEWAY_STATUS_PORT, "HAProxy metrics"),
    ("gateway", NODE_EXPORTER_PORT, "machine metrics"),
    ("node", NODE_EXPORTER_PORT, "machine metrics"),
    ("node", 10249, "kube-proxy metrics"),
    ("control-plane", 2381, "etcd metrics"),
    ("control-plane", 10257, "controller manager metrics"),
    ("control-plane", 10259, "scheduler metrics"),
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One way in. `source` is a role (remote group), `SUBNET` or a CIDR; ports are inclusive."""

    role: str
    source: str
    protocol: str
    first: int | None = None
    last: int | None = None
    why: str

    @property
    def key(self) -> str:
        """A stable name: the rule's place in the list must not matter."""
        source = self.source.replace("/", "-").replace(":", ".")
        ports = "" if self.first is None else f"-{self.first}"
        return f"{self.role}-{self.protocol}{ports}-from-{source}"


def rules(
    *,
    allowed: Sequence[str],
    ingress: Sequence[str],
    machines: Sequence[str] = (),
    gateways: int,
    ingress_ports: Sequence[int],
    monitored: bool,
    octavia: bool,
) -> list[Rule]:
    """Every rule of a cluster. Whatever is not listed here is dropped.

    `machines` are the CIDRs of nodes that are in no security group of the cluster.
    """
    outside = [
        Rule(role="gateway", source=cidr, protocol="tcp", first=first, last=last, why=why)
        for cidr in dict.fromkeys(allowed)
        for first, last, why in (
            (22, 22, "SSH jump host"),
            (6443, 6443, "Kubernetes API"),
            (2200, 2199 + gateways, "SSH to one certain gateway"),
        )
    ] + [
        Rule(role="gateway", source=cidr, protocol="tcp", first=port, last=port, why="ingress")
        for cidr in dict.fromkeys(ingress)
        for port in (80, 443)
    ]
    inside = [
        Rule(role="gateway", source="gateway", protocol="vrrp", why="who holds the VIP"),
        Rule(role="gateway", source="gateway", protocol="tcp", first=22, last=22, why="SSH"),
        Rule(
            role="gateway",
            source="gateway",
            protocol="tcp",
            first=GATEWAY_STATUS_PORT,
            last=GATEWAY_STATUS_PORT,
            why="whether another gateway may reboot",
        ),
        Rule(role="node", source="gateway", protocol="tcp", first=22, last=22, why="SSH"),
        Rule(
            role="control-plane", source="gateway", protocol="tcp", first=6443, last=6443, why="API"
        ),
        Rule(
            role="control-plane",
            source="control-plane",
            protocol="tcp",
            first=2379,
            last=2380,
            why="etcd",
        ),
    ] + [
        Rule(role="node", source="gateway", protocol="tcp", first=port, last=port, why="ingress")
        for port in ingress_ports
    ]
    # Octavia's machines take any address of the subnet. The cloud controller could see to it, but
    # by groups of its own on ports that are ours: a refresh would take them off.
    balanced = [
        Rule(
            role="worker",
            source=SUBNET,
            protocol=protocol,
            first=NODE_PORTS[0],
            last=NODE_PORTS[1],
            why="load balancers",
        )
        for protocol in (("tcp", "udp") if octavia else ())
    ]
    nodes = ("node", *machines)
    return [
        *outside,
        *inside,
        *balanced,
        *(rule for each in nodes for rule in _of_node(each)),
        *(rule for each in nodes if monitored for rule in _of_prometheus(each)),
    ]


def _of_node(source: str) -> list[Rule]:
    """What each node, wherever it is, needs of the others."""
    return [
        Rule(role="node", source=source, protocol="icmp", why="path MTU, ping"),
        Rule(role="node", source=source, protocol="udp", first=8472, last=8472, why="pod VXLAN"),
        Rule(role="node", source=source, protocol="tcp", first=4240, last=4240, why="CNI health"),
        Rule(role="node", source=source, protocol="tcp", first=4244, last=4244, why="Hubble"),
        Rule(role="node", source=source, protocol="tcp", first=10250, last=10250, why="kubelet"),
        Rule(role="control-plane", source=source, protocol="tcp", first=6443, last=6443, why="API"),
    ]


def _of_prometheus(source: str) -> list[Rule]:
    """What Prometheus asks: it may be on any node, and leaves that one with its address."""
    return [
        Rule(role=role, source=source, protocol="tcp", first=port, last=port, why=why)
        for role, port, why in METRICS
    ]
