"""Quotas of the project."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cloud.facts import UNLIMITED, Facts
from cloud.quotas import needs
from cloud.roles import roles
from config.errors import MISSING, Fault
from config.models.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class _Quota:
    """A quota as messages name it, and its remedy."""

    what: str
    unit: str
    remedy: str
    key: str | None = None
    """The key that decides how much is needed; None: the count of each role."""


_FEWER = "ask for a larger quota, or set fewer machines"
_OWN_NETWORK = "ask for a larger quota, or set existingNetwork"
_SMALLER = "ask for a larger quota, or set fewer machines or a smaller flavor"

_QUOTAS: Mapping[str, _Quota] = {
    "instances": _Quota(what="instances", unit="", remedy=_FEWER),
    "cores": _Quota(what="cores", unit="", remedy=_SMALLER),
    "memory": _Quota(what="RAM", unit=" MiB", remedy=_SMALLER),
    "serverGroups": _Quota(what="server groups", unit="", remedy="ask for a larger quota"),
    "volumes": _Quota(what="volumes", unit="", remedy=_FEWER),
    "gigabytes": _Quota(
        what="volume space", unit=" GiB", remedy="ask for a larger quota, or set smaller volumes"
    ),
    "ports": _Quota(what="ports", unit="", remedy=_FEWER),
    "networks": _Quota(what="networks", unit="", remedy=_OWN_NETWORK, key="existingNetwork"),
    "subnets": _Quota(what="subnets", unit="", remedy=_OWN_NETWORK, key="existingNetwork"),
    "routers": _Quota(what="routers", unit="", remedy=_OWN_NETWORK, key="existingNetwork"),
    "floatingIps": _Quota(
        what="floating IPs",
        unit="",
        remedy="release one, or set floatingIp to a free one",
        key="floatingIp",
    ),
    "securityGroups": _Quota(
        what="security groups", unit="", remedy="ask for a larger quota", key="allowedCidrs"
    ),
    "securityGroupRules": _Quota(
        what="security group rules",
        unit="",
        remedy="ask for a larger quota, or list fewer allowedCidrs",
        key="allowedCidrs",
    ),
}


def faults(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """Quotas that are too small."""
    members = facts.limits.get("serverGroupMembers")
    for role in roles(cluster):
        if members and members.limit != UNLIMITED and role.count > members.limit:
            yield Fault(
                role.count_key,
                role.count,
                f"a server group may have {members.limit} members in this project (quota "
                "server_group_members); ask for a larger quota, or use several pools",
            )
    counts = ", ".join(f"{role.count_key}={role.count}" for role in roles(cluster))
    for name, more in needs(cluster, facts).items():
        limit = facts.limits.get(name)
        if limit is None or limit.limit == UNLIMITED or more <= 0:
            continue
        free = max(0, limit.limit - limit.used)
        if more > free:
            quota = _QUOTAS[name]
            yield Fault(
                quota.key or counts,
                MISSING,
                f"the quota for {quota.what} is too small: {more}{quota.unit} more needed, "
                f"{free}{quota.unit} of {limit.limit}{quota.unit} free; {quota.remedy}",
            )
