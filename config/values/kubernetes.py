"""Values for Kubernetes, kubeadm and Helm charts."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

import versions
from config.values.text import matches, text_of_boolean

# As package names have it, without leading zeros.
_VERSION = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)

# The largest cluster that Kubernetes supports (kubernetes.io, "Considerations for large clusters").
_MAX_NODES = 5000

# Seconds. Renewals restart one control plane after the other, within a third of this time.
_SHORTEST_VALIDITY = 15 * 60
# kubeadm's default, and the most that it takes without a warning.
_LONGEST_VALIDITY = 365 * 24 * 3600

# Seconds.
_SHORTEST_TIMEOUT = 60
_LONGEST_TIMEOUT = 24 * 3600

_AUDIT_TYPE = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
_AUDIT_LEVELS = ("None", "Metadata", "Request", "RequestResponse")


def version_parts(version: str) -> tuple[int, int, int] | None:
    """The three numbers of a version such as `v1.36.3`; None for any other text."""
    match = _VERSION.fullmatch(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _supported(version: str) -> str:
    parts = version_parts(version)
    if parts is None:
        raise ValueError(
            f"must be a complete version with the v, such as {versions.KUBERNETES_VERSION}"
        )
    if f"{parts[0]}.{parts[1]}" not in versions.KUBERNETES_MINORS:
        minors = ", ".join(versions.KUBERNETES_MINORS)
        raise ValueError(f"this minor version is not supported; supported are {minors}")
    return version


def _etcd_members(count: int) -> int:
    if count not in (1, 3, 5):
        raise ValueError(
            "must be 1, 3 or 5: an even number of etcd members survives no more losses "
            "than one fewer"
        )
    return count


def seconds(duration: str) -> int:
    """The seconds of a duration in whole hours or minutes, such as `8760h` or `90m`."""
    return int(duration[:-1]) * {"h": 3600, "m": 60}[duration[-1]]


def _certificate_validity(duration: str) -> str:
    if not _SHORTEST_VALIDITY <= seconds(duration) <= _LONGEST_VALIDITY:
        raise ValueError("must be from 15m to 8760h")
    return duration


def _timeout(duration: str) -> str:
    if not _SHORTEST_TIMEOUT <= seconds(duration) <= _LONGEST_TIMEOUT:
        raise ValueError("must be from 1m to 24h")
    return duration


def _without_type(fields: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    if named := {"apiVersion", "kind"} & fields.keys():
        raise ValueError(f"must not set {' and '.join(sorted(named))}; the program sets them")
    return fields


def _audit_policy(policy: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The whole policy: an API server does not start with one that has no type or no rules."""
    for key, value in _AUDIT_TYPE.items():
        if (given := policy.get(key, value)) != value:
            raise ValueError(f"{key} is {given}; it must be {value}, which is the default")
    rules = policy.get("rules")
    if not rules or not isinstance(rules, list):
        raise ValueError("must have a list of at least one rule: {rules: [{level: Metadata}]}")
    for rule in rules:
        if not isinstance(rule, Mapping) or rule.get("level") not in _AUDIT_LEVELS:
            raise ValueError(f"each rule needs a level: {', '.join(_AUDIT_LEVELS)}")
    return {**_AUDIT_TYPE, **policy}


KubernetesVersion = Annotated[str, AfterValidator(_supported)]
ControlPlaneCount = Annotated[int, AfterValidator(_etcd_members)]
WorkerCount = Annotated[int, Field(ge=0, le=_MAX_NODES)]
Share = Annotated[
    str, matches(r"[0-9]{1,4}|[0-9]{1,2}%|100%", "must be a number, or a percentage such as 10%")
]
PreflightCheck = Annotated[
    str, matches(r"[-\w./]+", "must be the name of one check, such as NumCPU")
]
CertificateValidity = Annotated[
    str,
    matches(r"[1-9][0-9]{0,6}[hm]", "must be a number of hours or minutes, such as 720h"),
    AfterValidator(_certificate_validity),
]
Timeout = Annotated[
    str,
    matches(r"[1-9][0-9]{0,3}[hm]", "must be a number of hours or minutes, such as 30m"),
    AfterValidator(_timeout),
]
ArgumentName = Annotated[
    str,
    matches(
        r"[a-z][a-z0-9]*(-[a-z0-9]+)*", "must be the name of an argument, such as v, without --"
    ),
]
ArgumentValue = Annotated[
    str,
    BeforeValidator(text_of_boolean),
    matches(r"[ -~]*", "must be one line of ASCII characters"),
]
Arguments = Mapping[ArgumentName, ArgumentValue]
ComponentConfig = Annotated[Mapping[str, JsonValue], AfterValidator(_without_type)]
AuditPolicy = Annotated[Mapping[str, JsonValue], AfterValidator(_audit_policy)]
ChartValues = Mapping[str, JsonValue]
VolumeSize = Annotated[str, matches(r"[1-9][0-9]*(Mi|Gi|Ti)", "must be a size such as 20Gi")]
