"""Rules for the settings of the kubelet, which does not start with a wrong one."""

import re
from collections.abc import Iterator, Mapping, Sequence

from config import kubelet_fields, parse, reserved, shutdown
from config.errors import MISSING, Fault
from config.models.cluster import Cluster
from config.rules.rule import rule

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
_PERCENTAGE = re.compile(r"[0-9]{1,2}(\.[0-9]+)?%|100%")
_PART_OF_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_DURATION = re.compile(f"(?:{_PART_OF_DURATION.pattern})+")
# As Go's time.ParseDuration; less than nothing switches some of the fields off.
_TIME = re.compile(r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(h|ms|m|s|us|µs|ns))+)")
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
# The kubelet's own shares of the disk at which it deletes images.
_IMAGE_SHARES = {"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80}
# What enforceNodeAllocatable names, and the field with its cgroup.
_CGROUPS = {
    name + suffix: field
    for name, field in (
        ("system-reserved", "systemReservedCgroup"),
        ("kube-reserved", "kubeReservedCgroup"),
    )
    for suffix in ("", "-compressible")
}
_SHORTEST_SHUTDOWN = 1000  # milliseconds


@rule("kubelet")
def _kubelet_fields_are_not_those_of_the_program(cluster: Cluster) -> Iterator[Fault]:
    for field, value in cluster.kubelet.extra_config.items():
        if field in reserved.KUBELET_FIELDS:
            yield Fault(
                f"kubelet.extraConfig.{field}",
                value,
                f"{reserved.KUBELET_FIELDS[field]}; remove it",
            )


@rule("kubelet")
def _values_have_the_types_of_their_fields(cluster: Cluster) -> Iterator[Fault]:
    for field, value in cluster.kubelet.extra_config.items():
        switch = isinstance(value, bool)
        if field in kubelet_fields.NUMBERS and (switch or not isinstance(value, int)):
            needed = "a number, without quotes"
        elif field in kubelet_fields.TIMES and not _is_time(value):
            needed = "a time such as 1m30s"
        elif field in kubelet_fields.SWITCHES and not switch:
            needed = "true or false, without quotes"
        else:
            continue
        yield Fault(f"kubelet.extraConfig.{field}", value, f"must be {needed}")


def _is_time(value: object) -> bool:
    return isinstance(value, str) and bool(_TIME.fullmatch(value))


@rule("kubelet")
def _images_are_deleted_down_to_a_lower_share(cluster: Cluster) -> Iterator[Fault]:
    given = cluster.kubelet.extra_config
    (high, most), (low, least) = ((f, given.get(f, own)) for f, own in _IMAGE_SHARES.items())
    if isinstance(most, int) and isinstance(least, int) and least >= most:
        field = low if low in given else high
        yield Fault(
            f"kubelet.extraConfig.{field}",
            given[field],
            f"no kubelet starts unless {low} ({least}) is lower than {high} ({most})",
        )


@rule("kubelet")
def _reserved_resources_are_enforced_in_a_cgroup(cluster: Cluster) -> Iterator[Fault]:
    field, given = "enforceNodeAllocatable", cluster.kubelet.extra_config
    enforced = given.get(field)
    for name, cgroup in _CGROUPS.items():
        if isinstance(enforced, Sequence) and name in enforced and not given.get(cgroup):
            yield Fault(
                f"kubelet.extraConfig.{field}",
                name,
                f"no kubelet starts with it without {cgroup}; set that too, or remove it",
            )


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
    for field in (shutdown.PERIOD, shutdown.CRITICAL):
        if 0 < (_milliseconds(given.get(field)) or 0) < _SHORTEST_SHUTDOWN:
            yield Fault(
                f"kubelet.extraConfig.{field}", given[field], "must be at least 1s, or 0s for none"
            )
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
