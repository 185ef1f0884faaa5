"""Every port of a cluster. Node scripts get the ones that they need through `node.env`."""

import re

SSH = 22
"""On every machine; at the floating IP, that of the active gateway."""
FIRST_GATEWAY_SSH = 2200
"""At the floating IP; gateway *i* has this port plus *i*."""
HTTP = 80
HTTPS = 443
"""The ingress, at the floating IP."""
INGRESS_HTTP = 30080
INGRESS_HTTPS = 30443
"""NodePorts of the ingress controller, to which gateways send HTTP and HTTPS."""
OBJECT_STORE = 7070
"""The object store, at the floating IP."""
OBJECT_STORE_NODE_PORT = 30070
"""NodePort of the object store, to which gateways send what reaches that port."""
NODE_PORTS = (30000, 32767)
"""The first and the last NodePort, unless the API server's argument names others."""
_RANGE = re.compile(r"([0-9]{1,5})(?:([-+])([0-9]{1,5}))?")
_LAST = 65535

API = 6443
"""API servers, and the API at the floating IP."""
LOCAL_API = 7443
"""The API on the loopback of every node, which HAProxy balances over the control planes."""
KUBELET = 10250
KUBELET_HEALTH = 10248
"""The kubelet's own default, on the loopback."""
ETCD_CLIENT = 2379
ETCD_PEER = 2380

VXLAN = 8472
"""Pod network (UDP)."""
CILIUM_HEALTH = 4240
HUBBLE = 4244

HAPROXY_HEALTH = 8404
"""The health of this machine's HAProxy, on the loopback."""
GATEWAY_STATUS = 8405
"""On gateways: the health of HAProxy, for other gateways, and its metrics."""
NODE_EXPORTER = 9100
KUBE_PROXY_METRICS = 10249
ETCD_METRICS = 2381
CONTROLLER_MANAGER_METRICS = 10257
SCHEDULER_METRICS = 10259

# What a Service must not take on a node.
OF_NODES = (
    SSH,
    API,
    LOCAL_API,
    KUBELET,
    KUBELET_HEALTH,
    ETCD_CLIENT,
    ETCD_PEER,
    VXLAN,
    CILIUM_HEALTH,
    HUBBLE,
    HAPROXY_HEALTH,
    NODE_EXPORTER,
    KUBE_PROXY_METRICS,
    ETCD_METRICS,
    CONTROLLER_MANAGER_METRICS,
    SCHEDULER_METRICS,
)

_OF_NODE_SCRIPTS = (
    "API",
    "LOCAL_API",
    "ETCD_CLIENT",
    "ETCD_PEER",
    "CONTROLLER_MANAGER_METRICS",
    "SCHEDULER_METRICS",
    "FIRST_GATEWAY_SSH",
    "HTTP",
    "HTTPS",
    "INGRESS_HTTP",
    "INGRESS_HTTPS",
    "HAPROXY_HEALTH",
    "GATEWAY_STATUS",
    "NODE_EXPORTER",
)


def node_ports(argument: str) -> tuple[int, int]:
    """The first and the last NodePort by the API server's argument, in each form that it takes.

    Raises:
        ValueError: if it is no range of ports.
    """
    if not argument:
        return NODE_PORTS
    if found := _RANGE.fullmatch(argument):
        first, sign, second = int(found[1]), found[2], int(found[3] or 0)
        last = {"-": second, "+": first + second}.get(sign, first)
        if 1 <= first <= last <= _LAST:
            return first, last
    raise ValueError("must be a range of ports such as 30000-32767")


def node_env() -> dict[str, str]:
    """The keys of `node.env` with the ports that node scripts need."""
    return {f"{name}_PORT": str(globals()[name]) for name in _OF_NODE_SCRIPTS}
