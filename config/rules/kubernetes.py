"""Rules for the settings of the control plane and etcd, and for the HTTP proxy."""

from collections.abc import Iterator
from math import ceil

from config import ports, reserved
from config.errors import MISSING, Fault
from config.models.cluster import Cluster
from config.models.kubernetes import ETCD_LOG_GIB, NODE_PORT_RANGE
from config.rules.rule import rule

# etcd refuses to start below this ratio of election timeout to heartbeat interval.
_ELECTION_HEARTBEATS = 5

_GIB = 2**30

# What keeps a kubelet from changing other nodes; it leaves the list when someone sets the list.
_NODE_RESTRICTION = "NodeRestriction"


@rule(*reserved.ARGUMENTS)
def _arguments_are_not_those_of_the_program(cluster: Cluster) -> Iterator[Fault]:
    for component, given in {
        "apiServer": cluster.api_server.extra_args,
        "controllerManager": cluster.controller_manager.extra_args,
        "scheduler": cluster.scheduler.extra_args,
    }.items():
        for name, value in given.items():
            key = f"{component}.extraArgs.{name}"
            if name in reserved.ARGUMENTS[component]:
                yield Fault(key, value, f"{reserved.ARGUMENTS[component][name]}; remove it")


@rule("apiServer", "addons")
def _node_ports_are_those_of_services(cluster: Cluster) -> Iterator[Fault]:
    addons, key = cluster.addons, f"apiServer.extraArgs.{NODE_PORT_RANGE}"
    given = cluster.api_server.extra_args.get(NODE_PORT_RANGE, MISSING)
    try:
        low, high = cluster.api_server.node_ports
    except ValueError as error:
        yield Fault(key, given, str(error))
        return
    if taken := sorted(port for port in ports.OF_NODES if low <= port <= high):
        shown = ", ".join(map(str, taken))
        yield Fault(key, given, f"must not include ports of the nodes themselves: {shown}")
    wanted = {
        **dict.fromkeys((ports.INGRESS_HTTP, ports.INGRESS_HTTPS), addons.ingress.enabled),
        ports.OBJECT_STORE_NODE_PORT: addons.object_store.enabled,
    }
    for port in (port for port, needed in wanted.items() if needed and not low <= port <= high):
        yield Fault(key, given, f"must include {port}, to which gateways forward; remove it")


@rule("kubeadm")
def _errors_are_ignored_one_by_one(cluster: Cluster) -> Iterator[Fault]:
    names = {name.lower() for name in cluster.kubeadm.ignore_preflight_errors}
    if len(names) > 1 and "all" in names:
        yield Fault(
            "kubeadm.ignorePreflightErrors",
            ", ".join(cluster.kubeadm.ignore_preflight_errors),
            "kubeadm takes `all` only alone; remove it, or the others",
        )


@rule("apiServer")
def _nodes_are_restricted(cluster: Cluster) -> Iterator[Fault]:
    key = "apiServer.extraArgs.{}-admission-plugins"
    enabled = cluster.api_server.extra_args.get("enable-admission-plugins", _NODE_RESTRICTION)
    disabled = cluster.api_server.extra_args.get("disable-admission-plugins", "")
    problem = f"must {{}}include {_NODE_RESTRICTION}, or one node can act as all"
    if _NODE_RESTRICTION not in enabled.split(","):
        yield Fault(key.format("enable"), enabled, problem.format(""))
    if _NODE_RESTRICTION in disabled.split(","):
        yield Fault(key.format("disable"), disabled, problem.format("not "))


@rule("etcd")
def _elections_take_longer_than_heartbeats(cluster: Cluster) -> Iterator[Fault]:
    least = cluster.etcd.heartbeat_interval * _ELECTION_HEARTBEATS
    if cluster.etcd.election_timeout < least:
        yield Fault(
            "etcd.electionTimeout",
            cluster.etcd.election_timeout,
            f"must be at least {least}: {_ELECTION_HEARTBEATS} times etcd.heartbeatInterval "
            f"({cluster.etcd.heartbeat_interval})",
        )


@rule("etcd", "controlPlane")
def _etcd_meets_its_quota_before_a_full_disk(cluster: Cluster) -> Iterator[Fault]:
    volume, quota = cluster.control_plane.etcd_volume, cluster.etcd.quota_backend_bytes
    least = ceil(quota / _GIB) + ETCD_LOG_GIB
    if volume is not None and volume.size < least:
        yield Fault(
            "controlPlane.etcdVolume.size",
            volume.size,
            f"must be at least {least}: etcd.quotaBackendBytes ({quota}), and "
            f"{ETCD_LOG_GIB} GiB for etcd's log and snapshots; raise it, or lower "
            "etcd.quotaBackendBytes",
        )


def warnings(cluster: Cluster) -> Iterator[str]:
    """Return warnings about settings that are allowed but probably not meant."""
    volume = cluster.control_plane.etcd_volume
    if volume is None:
        return
    room = (volume.size - ETCD_LOG_GIB) * _GIB // 2
    if room < cluster.etcd.quota_backend_bytes:
        yield (
            f"controlPlane.etcdVolume.size = {volume.size}: a snapshot takes as much room as the "
            f"database of etcd. When that has more than {room / _GIB:g} GiB, snapshots fail, and "
            "upgrades, which begin with one: lower etcd.quotaBackendBytes, or enlarge the volumes "
            "by hand ('A larger volume for etcd' in docs/operations.md)"
        )


@rule("httpProxy")
def _a_proxy_has_a_url(cluster: Cluster) -> Iterator[Fault]:
    proxy = cluster.http_proxy
    if proxy is not None and proxy.http is None and proxy.https is None:
        yield Fault("httpProxy", MISSING, "set httpProxy.http or httpProxy.https, or remove it")
