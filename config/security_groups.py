"""The rules of the security groups, as data: connections between machines, and from outside."""

from collections.abc import Iterator
from dataclasses import dataclass

from config import ports
from config.models.cluster import Cluster

# The security groups. `node` holds what control planes and workers share.
GROUPS = ("gateway", "node", "control-plane", "worker")

# The source of a rule that lets in every address of the machines' subnet.
SUBNET = "subnet"

# What Prometheus scrapes: group, port, whose metrics.
METRICS = (
    ("gateway", ports.GATEWAY_STATUS, "HAProxy metrics"),
    ("gateway", ports.NODE_EXPORTER, "machine metrics"),
    ("node", ports.NODE_EXPORTER, "machine metrics"),
    ("node", ports.KUBE_PROXY_METRICS, "kube-proxy metrics"),
    ("control-plane", ports.ETCD_METRICS, "etcd metrics"),
    ("control-plane", ports.CONTROLLER_MANAGER_METRICS, "controller manager metrics"),
    ("control-plane", ports.SCHEDULER_METRICS, "scheduler metrics"),
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Traffic that a security group lets in; the ports are inclusive."""

    group: str
    source: str
    """A group (all machines in it), `SUBNET`, or a CIDR."""
    protocol: str
    first: int | None = None
    last: int | None = None
    why: str

    @property
    def key(self) -> str:
        """A stable name: it must not depend on the rule's place in the list."""
        source = self.source.replace("/", "-").replace(":", ".")
        port = "" if self.first is None else f"-{self.first}"
        return f"{self.group}-{self.protocol}{port}-from-{source}"


def rules(cluster: Cluster) -> list[Rule]:
    """Every rule of a cluster. Neutron drops whatever is not listed here."""
    # Machines that exist already have no port in Neutron, and so no security group.
    nodes = ("node", *map(str, cluster.machine_cidrs))
    return [
        *_from_users(cluster),
        *_from_gateways(cluster),
        _tcp("control-plane", "control-plane", ports.ETCD_CLIENT, "etcd", last=ports.ETCD_PEER),
        *(_from_load_balancers(cluster) if cluster.addons.octavia else ()),
        *(rule for source in nodes for rule in _from_nodes(cluster, source)),
        *(
            _tcp(group, source, port, why)
            for source in nodes
            for group, port, why in (METRICS if cluster.addons.monitoring.enabled else ())
        ),
    ]


def _from_users(cluster: Cluster) -> Iterator[Rule]:
    last_ssh = ports.FIRST_GATEWAY_SSH + cluster.gateway_count - 1
    for cidr in dict.fromkeys(map(str, cluster.allowed_cidrs)):
        yield _tcp("gateway", cidr, ports.SSH, "SSH jump host")
        yield _tcp("gateway", cidr, ports.API, "Kubernetes API")
        yield _tcp("gateway", cidr, ports.FIRST_GATEWAY_SSH, "SSH to each gateway", last=last_ssh)
    for cidr in dict.fromkeys(map(str, cluster.ingress_sources)):
        yield _tcp("gateway", cidr, ports.HTTP, "ingress")
        yield _tcp("gateway", cidr, ports.HTTPS, "ingress")
    for cidr in dict.fromkeys(map(str, cluster.object_store_sources)):
        yield _tcp("gateway", cidr, ports.OBJECT_STORE, "object store")


def _from_gateways(cluster: Cluster) -> Iterator[Rule]:
    yield Rule(group="gateway", source="gateway", protocol="vrrp", why="which gateway has the VIP")
    yield _tcp("gateway", "gateway", ports.SSH, "SSH")
    yield _tcp("gateway", "gateway", ports.GATEWAY_STATUS, "whether a gateway may reboot")
    yield _tcp("node", "gateway", ports.SSH, "SSH")
    yield _tcp("node", "gateway", ports.INGRESS_HTTP, "ingress")
    yield _tcp("node", "gateway", ports.INGRESS_HTTPS, "ingress")
    if cluster.addons.object_store.enabled:
        yield _tcp("node", "gateway", ports.OBJECT_STORE_NODE_PORT, "object store")
    yield _tcp("control-plane", "gateway", ports.API, "API")


def _from_load_balancers(cluster: Cluster) -> Iterator[Rule]:
    """Let in Octavia's machines, which take any address of the subnet.

    The cloud controller could open these ports, but with security groups of its own on ports that
    this program manages: a refresh would remove them.
    """
    first, last = cluster.api_server.node_ports
    yield _tcp("worker", SUBNET, first, "load balancers", last=last)
    yield _udp("worker", SUBNET, first, "load balancers", last=last)


def _from_nodes(cluster: Cluster, source: str) -> Iterator[Rule]:
    """Let in what every node, wherever it is, sends to the others."""
    yield Rule(group="node", source=source, protocol="icmp", why="path MTU, ping")
    yield _udp("node", source, ports.VXLAN, "pod VXLAN")
    yield _tcp("node", source, ports.CILIUM_HEALTH, "CNI health")
    yield _tcp("node", source, ports.HUBBLE, "Hubble")
    yield _tcp("node", source, ports.KUBELET, "kubelet")
    first, last = cluster.api_server.node_ports
    yield _tcp("node", source, first, "NodePorts", last=last)
    yield _udp("node", source, first, "NodePorts", last=last)
    yield _tcp("control-plane", source, ports.API, "API")


def _tcp(group: str, source: str, first: int, why: str, *, last: int | None = None) -> Rule:
    last = first if last is None else last
    return Rule(group=group, source=source, protocol="tcp", first=first, last=last, why=why)


def _udp(group: str, source: str, first: int, why: str, *, last: int | None = None) -> Rule:
    last = first if last is None else last
    return Rule(group=group, source=source, protocol="udp", first=first, last=last, why=why)
