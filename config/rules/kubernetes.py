"""Rules for the settings of the kubelet, the control plane and etcd, and for the HTTP proxy."""

import re
from collections.abc import Iterator, Mapping
from math import ceil

from config import parse, ports, reserved, shutdown
from config.errors import MISSING, Fault
from config.models.cluster import Cluster
from config.models.kubernetes import NODE_PORT_RANGE
from config.rules.rule import rule

# etcd refuses to start below this ratio of election timeout to heartbeat interval.
_ELECTION_HEARTBEATS = 5

_GIB = 2**30
_GIB_BESIDE_DATABASE = 1

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
_PART_OF_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_DURATION = re.compile(f"(?:{_PART_OF_DURATION.pattern})+")
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


@rule("kubelet")
def _kubelet_fields_are_not_those_of_the_program(cluster: Cluster) -> Iterator[Fault]:
    for field, value in cluster.kubelet.extra_config.items():
        if field in reserved.KUBELET_FIELDS:
            yield Fault(
                f"kubelet.extraConfig.{field}",
                value,
                f"{reserved.KUBELET_FIELDS[field]}; remove it",
            )


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
def _node_ports_of_gateways_are_in_range(cluster: Cluster) -> Iterator[Fault]:
    addons, key = cluster.addons, f"apiServer.extraArgs.{NODE_PORT_RANGE}"
    given = cluster.api_server.extra_args.get(NODE_PORT_RANGE, MISSING)
    try:
        low, high = cluster.api_server.node_ports
    except ValueError as error:
        yield Fault(key, given, str(error))
        return
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


@rule("kubelet")
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


@rule("kubelet")
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


@rule("kubelet")
def _critical_pods_have_a_part_of_the_shutdown(cluster: Cluster) -> Iterator[Fault]:
    given = cluster.kubelet.extra_config
    if given.get(shutdown.BY_PRIORITY):
        for field in (shutdown.PERIOD, shutdown.CRITICAL):
            if _milliseconds(given.get(field)):
                problem = (
                    f"no kubelet starts with it and {shutdown.BY_PRIORITY}; remove one of them"
                )
                yield Fault(f"kubelet.extraConfig.{field}", given[field], problem)
        return
    wanted = {**shutdown.defaults(given), **given}
    period, critical = (
        _milliseconds(wanted[each]) for each in (shutdown.PERIOD, shutdown.CRITICAL)
    )
    if period is not None and critical is not None and critical > period:
        yield Fault(
            f"kubelet.extraConfig.{shutdown.PERIOD}",
            wanted[shutdown.PERIOD],
            f"must not be shorter than {shutdown.CRITICAL}, {wanted[shutdown.CRITICAL]}, "
            "or no kubelet starts; change one of them",
        )


def _milliseconds(duration: object) -> int | None:
    if not isinstance(duration, str) or not _DURATION.fullmatch(duration):
        return None
    parts = _PART_OF_DURATION.findall(duration)
    return sum(round(float(number) * _MILLISECONDS[unit]) for number, unit in parts)


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
    least = ceil(quota / _GIB) + _GIB_BESIDE_DATABASE
    if volume is not None and volume.size < least:
        yield Fault(
            "controlPlane.etcdVolume.size",
            volume.size,
            f"must be at least {least}: etcd.quotaBackendBytes ({quota}), and "
            f"{_GIB_BESIDE_DATABASE} GiB for etcd's log and snapshots; raise it, or lower "
            "etcd.quotaBackendBytes",
        )


@rule("httpProxy")
def _a_proxy_has_a_url(cluster: Cluster) -> Iterator[Fault]:
    proxy = cluster.http_proxy
    if proxy is not None and proxy.http is None and proxy.https is None:
        yield Fault("httpProxy", MISSING, "set httpProxy.http or httpProxy.https, or remove it")
