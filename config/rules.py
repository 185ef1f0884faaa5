"""Rules over several keys of the configuration: pure functions from a cluster to its faults."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

from pydantic.alias_generators import to_camel

from config import parse, reserved
from config.addresses import LONGEST_PREFIX, Addresses, addresses
from config.errors import MISSING, Fault
from config.models.cluster import Cluster
from config.models.machines import (
    ExistingMachine,
    RoleSettings,
    WorkerPoolSettings,
    WorkerSettings,
)
from config.values.network import LONGEST_LABEL

# kube-apiserver refuses a larger Service network ("the mask must be >= 12").
_LARGEST_SERVICE_PREFIX = 12
# Chosen by this program: fewer than 254 Services are soon used up, and the network is immutable.
_SMALLEST_SERVICE_PREFIX = 24

# etcd refuses to start below this ratio of election timeout to heartbeat interval.
_ELECTION_HEARTBEATS = 5

# X.520: 64 characters for the common name of a certificate, which is `system:node:NAME`.
_LONGEST_CERTIFIED_NODE = 64 - len("system:node:")

# What keeps a kubelet from changing other nodes; it leaves the list when someone sets the list.
_NODE_RESTRICTION = "NodeRestriction"

# Fields of KubeletConfiguration that a kubelet with a wrong value does not start with, and the keys
# in them.
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS = (
    *("memory.available", "allocatableMemory.available", "pid.available"),
    *("nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"),
    *("containerfs.available", "containerfs.inodesFree"),
)
_AMOUNTS = {
    "kubeReserved": _RESOURCES,
    "systemReserved": _RESOURCES,
    "evictionHard": _SIGNALS,
    "evictionSoft": _SIGNALS,
    "evictionMinimumReclaim": _SIGNALS,
}
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|[KMGTPE]i|[MGTPE])?")
_PERCENTAGE = re.compile(r"[0-9]{1,2}(\.[0-9]+)?%")
_DURATION = re.compile(r"([0-9]+(\.[0-9]+)?(h|m|s|ms))+")

_Check = Callable[[Cluster], Iterable[Fault]]


@dataclass(frozen=True)
class _Rule:
    keys: frozenset[str]
    """The keys that the rule reads; it is skipped unless all of them are usable."""
    check: _Check


_RULES: list[_Rule] = []


def _rule(*keys: str) -> Callable[[_Check], _Check]:
    def register(check: _Check) -> _Check:
        _RULES.append(_Rule(frozenset(keys), check))
        return check

    return register


def cross_field_faults(cluster: Cluster, unusable: frozenset[str]) -> Iterator[Fault]:
    """The faults of every rule, except those that need an unusable key."""
    for rule in _RULES:
        if not rule.keys & unusable:
            yield from rule.check(cluster)


def warnings(cluster: Cluster) -> Iterator[str]:
    """Return warnings about settings that are allowed but probably not meant."""
    for key, attribute in _NETWORKS.items():
        network: IPv4Network = getattr(cluster, attribute)
        if network.is_global:
            yield (
                f"{key} = {network}: these are public addresses, and whoever has them on the "
                "internet cannot be reached from the cluster; use a private network, such as "
                f"{Cluster.model_fields[attribute].default}"
            )


def _node_count(cluster: Cluster) -> int:
    return cluster.control_plane_count + sum(p.count + len(p.machines) for p in cluster.pools)


def _prefix_for(count: int, of: int) -> int:
    """The longest prefix of a network that holds `count` networks with the prefix `of`."""
    return of - (count - 1).bit_length()


# Backups


@_rule("backup")
def _a_restore_needs_a_bucket(cluster: Cluster) -> Iterator[Fault]:
    if cluster.backup.restore is not None and cluster.backup.bucket is None:
        yield Fault(
            "backup.restore", cluster.backup.restore, "needs a bucket; set backup.bucket too"
        )


@_rule("clusterName", "addons")
def _an_object_store_has_no_backups_of_its_own_cluster(cluster: Cluster) -> Iterator[Fault]:
    for index, name in enumerate(cluster.addons.object_store.clusters):
        if name == cluster.cluster_name:
            yield Fault(
                f"addons.objectStore.clusters[{index}]",
                name,
                "is this cluster: its backups would be lost with it; remove the name, and set "
                "backup.bucket to a store elsewhere",
            )


# Networks


def _disjoint(one: str, other: str, attributes: tuple[str, str]) -> None:
    @_rule(one, other)
    def check(cluster: Cluster) -> Iterator[Fault]:
        first: IPv4Network = getattr(cluster, attributes[0])
        second: IPv4Network = getattr(cluster, attributes[1])
        if first.overlaps(second):
            yield Fault(one, first, f"overlaps {other} ({second}); choose another network")


_NETWORKS = {"hostCidr": "host_cidr", "podCidr": "pod_cidr", "serviceCidr": "service_cidr"}

for _one, _other in combinations(_NETWORKS, 2):
    _disjoint(_one, _other, (_NETWORKS[_one], _NETWORKS[_other]))


@_rule("hostCidr", "existingNetwork", "workerCount", "workerPools")
def _host_cidr_is_large_enough(cluster: Cluster) -> Iterator[Fault]:
    if cluster.host_cidr.prefixlen > LONGEST_PREFIX:
        yield Fault("hostCidr", cluster.host_cidr, f"too small; use a /{LONGEST_PREFIX} or larger")
        return
    workers = sum(pool.count for pool in cluster.pools)
    capacity = addresses(cluster.host_cidr).worker_capacity
    if cluster.existing_network is None and workers > capacity:
        prefix = next(
            length
            for length in range(cluster.host_cidr.prefixlen, 0, -1)
            if addresses(cluster.host_cidr.supernet(new_prefix=length)).worker_capacity >= workers
        )
        yield Fault(
            "hostCidr",
            cluster.host_cidr,
            f"has room for {capacity} workers, but {workers} are configured; use a /{prefix}",
        )


@_rule("podCidr", "controlPlaneCount", "workerCount", "workerPools")
def _pod_cidr_is_large_enough(cluster: Cluster) -> Iterator[Fault]:
    nodes = _node_count(cluster)
    prefix = _prefix_for(nodes, of=reserved.NODE_PREFIX)
    if cluster.pod_cidr.prefixlen > prefix:
        yield Fault(
            "podCidr",
            cluster.pod_cidr,
            f"too small for {nodes} nodes, which need a /{reserved.NODE_PREFIX} each; "
            f"use a /{prefix} or larger",
        )


@_rule("serviceCidr")
def _service_cidr_has_a_fitting_size(cluster: Cluster) -> Iterator[Fault]:
    length = cluster.service_cidr.prefixlen
    if not _LARGEST_SERVICE_PREFIX <= length <= _SMALLEST_SERVICE_PREFIX:
        yield Fault(
            "serviceCidr",
            cluster.service_cidr,
            f"must be between a /{_LARGEST_SERVICE_PREFIX} and a /{_SMALLEST_SERVICE_PREFIX}",
        )


@_rule(*_NETWORKS)
def _networks_are_unicast(cluster: Cluster) -> Iterator[Fault]:
    for key, attribute in _NETWORKS.items():
        network: IPv4Network = getattr(cluster, attribute)
        if network.is_loopback or network.is_link_local or network.is_multicast:
            yield Fault(
                key, network, "is a loopback, link-local or multicast network; use a private one"
            )


# Machines


@_rule("flavor", "image", "gateway", "controlPlane", "worker", "workerPools", "workerCount")
def _every_role_has_flavor_and_image(cluster: Cluster) -> Iterator[Fault]:
    roles: list[tuple[str, RoleSettings]] = [
        ("gateway", cluster.gateway),
        ("controlPlane", cluster.control_plane),
    ]
    if cluster.worker_count:
        roles.append(("worker", cluster.worker))
    roles += [(f"workerPools[{i}]", p) for i, p in enumerate(cluster.worker_pools) if p.count]
    for key in ("flavor", "image"):
        without = [f"{path}.{key}" for path, role in roles if getattr(role, key) is None]
        if without and getattr(cluster, key) is None:
            yield Fault(key, MISSING, f"must be set, or each of {', '.join(without)} instead")


@_rule("clusterName")
def _cluster_name_is_free(cluster: Cluster) -> Iterator[Fault]:
    if cluster.cluster_name == reserved.CLUSTER:
        yield Fault(
            "clusterName",
            cluster.cluster_name,
            "is the default name of Cinder CSI and the cloud controller, by which other clusters "
            "of the project may have marked their volumes; choose another name",
        )


@_rule("workerPools")
def _pool_names_are_free(cluster: Cluster) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, pool in enumerate(cluster.worker_pools):
        key = f"workerPools[{index}].name"
        if pool.name in reserved.POOLS:
            names = ", ".join(reserved.POOLS)
            yield Fault(
                key, pool.name, f"is one of the reserved names {names}; choose another name"
            )
        elif pool.name in seen:
            yield Fault(key, pool.name, "another pool has this name; choose another name")
        seen.add(pool.name)


@_rule("workerPools")
def _pools_have_servers_or_machines(cluster: Cluster) -> Iterator[Fault]:
    for index, pool in enumerate(cluster.worker_pools):
        path = f"workerPools[{index}]"
        if not pool.machines:
            continue
        if pool.count:
            yield Fault(f"{path}.count", pool.count, "set either count or machines, not both")
        for name, key in (
            ("flavor", "flavor"),
            ("image", "image"),
            ("volume", "volume"),
            ("availability_zones", "availabilityZones"),
        ):
            if value := getattr(pool, name):
                yield Fault(
                    f"{path}.{key}",
                    value,
                    "does not apply to machines that exist already; remove it",
                )


@_rule("clusterName", "workerPools")
def _machine_names_fit(cluster: Cluster) -> Iterator[Fault]:
    # The longest of the names that no key of a pool is part of.
    groups = [("clusterName", "control-plane", 1)]
    groups += [
        (f"workerPools[{index}].name", pool.name, pool.count)
        for index, pool in enumerate(cluster.worker_pools)
    ]
    for key, group, count in groups:
        longest = cluster.node_name(group, max(count - 1, 0))
        if len(longest) > LONGEST_LABEL:
            value = cluster.cluster_name if key == "clusterName" else group
            yield Fault(
                key,
                value,
                f"too long: the machine name {longest} has {len(longest)} characters, "
                f"but at most {LONGEST_LABEL} are allowed",
            )


@_rule(
    *("clusterName", "workerPools", "workerCount", "controlPlaneCount", "gatewayCount", "rotation")
)
def _node_names_fit_into_certificates(cluster: Cluster) -> Iterator[Fault]:
    generation = cluster.rotation.certificate_authorities
    longest = max(cluster.machine_names, key=len)
    if generation > 1 and len(longest) > _LONGEST_CERTIFIED_NODE:
        yield Fault(
            "rotation.certificateAuthorities",
            generation,
            f"the node name {longest} has {len(longest)} characters, but openssl requests new "
            f"certificates for at most {_LONGEST_CERTIFIED_NODE} only; set it to 1, or move to a "
            "cluster with shorter names",
        )


@_rule("clusterName", "workerPools", "workerCount")
def _machines_have_names_of_their_own(cluster: Cluster) -> Iterator[Fault]:
    made = {cluster.node_name(p.name, i) for p in cluster.pools for i in range(p.count)}
    made |= {cluster.node_name("control-plane", i) for i in range(5)}
    for key, value in _repeated(cluster, "name", made):
        yield Fault(key, value, "another node has this name; choose another name")


@_rule("hostCidr", "existingNetwork", "workerPools")
def _machines_have_addresses_of_their_own(cluster: Cluster) -> Iterator[Fault]:
    for key, value in _repeated(cluster, "address", ()):
        yield Fault(key, value, "another machine has this address")
    if cluster.host_cidr.prefixlen > LONGEST_PREFIX:
        return
    reserved = _reserved(addresses(cluster.host_cidr))
    for path, machine in _machines(cluster):
        if owner := reserved.get(machine.address):
            yield Fault(f"{path}.address", machine.address, f"is reserved for {owner} in hostCidr")


def _machines(cluster: Cluster) -> Iterator[tuple[str, ExistingMachine]]:
    for i, pool in enumerate(cluster.worker_pools):
        for j, machine in enumerate(pool.machines):
            yield f"workerPools[{i}].machines[{j}]", machine


def _repeated(
    cluster: Cluster, attribute: str, taken: Iterable[object]
) -> Iterator[tuple[str, object]]:
    seen = set(taken)
    for path, machine in _machines(cluster):
        value: object = getattr(machine, attribute)
        if value in seen:
            yield f"{path}.{attribute}", value
        seen.add(value)


def _reserved(of: Addresses) -> dict[IPv4Address, str]:
    return {
        of.router: "the router",
        of.vip: "the gateways' VIP",
        **{address: f"gateway {i}" for i, address in enumerate(of.gateways)},
        **{address: f"control plane {i}" for i, address in enumerate(of.control_planes)},
    }


@_rule("worker", "workerPools")
def _labels_are_not_those_of_kubernetes(cluster: Cluster) -> Iterator[Fault]:
    pools: list[tuple[str, WorkerSettings]] = [("worker", cluster.worker)]
    pools += [(f"workerPools[{i}]", pool) for i, pool in enumerate(cluster.worker_pools)]
    for path, pool in pools:
        # Of a machine that is no server of this cloud, only a person knows zone and type.
        known = isinstance(pool, WorkerPoolSettings) and pool.machines
        for label, value in pool.labels.items():
            prefix = label.rpartition("/")[0]
            if label in reserved.LABELS or (
                not known
                and (label in reserved.CLOUD_LABELS or prefix in reserved.CLOUD_LABEL_PREFIXES)
            ):
                yield Fault(
                    f'{path}.labels["{label}"]',
                    value,
                    "is a label that Kubernetes or this program sets by itself; use a label of "
                    "your own, such as example.org/pool, or a role, node-role.kubernetes.io/gpu",
                )


# The way requests come in

# Where each ingress controller's chart has the Service.
_SERVICES = {"traefik": ("service", "spec"), "nginx": ("controller", "service")}


@_rule("addons")
def _the_ingress_is_reached_through_control_planes(cluster: Cluster) -> Iterator[Fault]:
    ingress = cluster.addons.ingress
    way = (*_SERVICES[ingress.controller], "externalTrafficPolicy")
    value: object = ingress.values
    for part in way:
        value = value.get(part) if isinstance(value, Mapping) else None
    if value == "Local" and not cluster.addons.octavia:
        yield Fault(
            f"addons.ingress.values.{'.'.join(way)}",
            value,
            "the gateways send requests to control planes, where no ingress pod runs; remove it: "
            "the ingress learns the client's address by the PROXY protocol",
        )


# What runs on workers.
_ON_WORKERS = ("monitoring", "ingress", "headlamp", "logging", "object_store", "operator")


@_rule("addons", "workerCount", "workerPools")
def _add_ons_have_workers(cluster: Cluster) -> Iterator[Fault]:
    if any(pool.count or pool.machines for pool in cluster.pools):
        return
    for attribute in _ON_WORKERS:
        add_on = getattr(cluster.addons, attribute)
        # A chart's values may let its pods onto control planes.
        if add_on.enabled and not getattr(add_on, "values", None):
            yield Fault(
                f"addons.{to_camel(attribute)}.enabled",
                True,
                "its pods run on workers, and this cluster has none; set workerCount to 1 or more",
            )


# Software


@_rule("kubelet")
def _kubelet_fields_are_not_those_of_the_program(cluster: Cluster) -> Iterator[Fault]:
    for field, value in cluster.kubelet.extra_config.items():
        if field in reserved.KUBELET_FIELDS:
            yield Fault(
                f"kubelet.extraConfig.{field}",
                value,
                f"{reserved.KUBELET_FIELDS[field]}; remove it",
            )


@_rule(*reserved.ARGUMENTS)
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
    key = "apiServer.extraArgs.{}-admission-plugins"
    enabled = cluster.api_server.extra_args.get("enable-admission-plugins", _NODE_RESTRICTION)
    disabled = cluster.api_server.extra_args.get("disable-admission-plugins", "")
    problem = f"must {{}}include {_NODE_RESTRICTION}, or one node can act as all"
    if _NODE_RESTRICTION not in enabled.split(","):
        yield Fault(key.format("enable"), enabled, problem.format(""))
    if _NODE_RESTRICTION in disabled.split(","):
        yield Fault(key.format("disable"), disabled, problem.format("not "))


@_rule("kubelet")
def _amounts_are_those_that_a_kubelet_starts_with(cluster: Cluster) -> Iterator[Fault]:
    for field, known in _AMOUNTS.items():
        if field not in cluster.kubelet.extra_config:
            continue
        amounts = cluster.kubelet.extra_config[field]
        if not isinstance(amounts, Mapping):
            yield Fault(f"kubelet.extraConfig.{field}", amounts, "must be an object")
            continue
        for name, amount in amounts.items():
            key = parse.path(("kubelet", "extraConfig", field, name))
            if name not in known:
                yield Fault(key, amount, f"unknown; use {', '.join(known)}")
            elif not _is_amount(amount, percentage=known is _SIGNALS):
                yield Fault(key, amount, 'must be a text with an amount, such as 500Mi or "1000"')


def _is_amount(value: object, *, percentage: bool) -> bool:
    if not isinstance(value, str):
        return False
    return bool(_AMOUNT.fullmatch(value) or (percentage and _PERCENTAGE.fullmatch(value)))


@_rule("kubelet")
def _soft_evictions_have_grace_periods(cluster: Cluster) -> Iterator[Fault]:
    field = "evictionSoftGracePeriod"
    signals = cluster.kubelet.extra_config.get("evictionSoft")
    periods = cluster.kubelet.extra_config.get(field)
    for signal in signals if isinstance(signals, Mapping) else ():
        period = periods.get(signal, MISSING) if isinstance(periods, Mapping) else MISSING
        if not isinstance(period, str) or not _DURATION.fullmatch(period):
            yield Fault(
                parse.path(("kubelet", "extraConfig", field, signal)),
                period,
                "must be a time such as 1m30s: no kubelet starts with evictionSoft without it",
            )


@_rule("etcd")
def _elections_take_longer_than_heartbeats(cluster: Cluster) -> Iterator[Fault]:
    least = cluster.etcd.heartbeat_interval * _ELECTION_HEARTBEATS
    if cluster.etcd.election_timeout < least:
        yield Fault(
            "etcd.electionTimeout",
            cluster.etcd.election_timeout,
            f"must be at least {least}: {_ELECTION_HEARTBEATS} times etcd.heartbeatInterval "
            f"({cluster.etcd.heartbeat_interval})",
        )


@_rule("httpProxy")
def _a_proxy_has_a_url(cluster: Cluster) -> Iterator[Fault]:
    proxy = cluster.http_proxy
    if proxy is not None and proxy.http is None and proxy.https is None:
        yield Fault("httpProxy", MISSING, "set httpProxy.http or httpProxy.https, or remove it")
