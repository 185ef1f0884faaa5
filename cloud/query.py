"""Asks the cloud's services for the facts, several at a time; changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cloud.facts import Facts, Limit, PartialFacts
from cloud.login import CloudLogin, connect
from cloud.questions import OPTIONAL, REQUIRED, Question
from cloud.token import Token, token_of
from config.errors import MISSING, ConfigError, Fault
from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection

Warn = Callable[[str], None]

_REQUIRED_SERVICES = ("compute", "network", "image")
# Requests at the same time.
_AT_A_TIME = 8

# What the cluster has of a quota is in these fields, which come with another answer than the quota.
_COUNTED_IN = {
    "instances": {"servers"},
    "cores": {"servers"},
    "memory": {"servers"},
    # Which boot volumes the cluster has is known by its servers.
    "volumes": {"servers", "volumes"},
    "gigabytes": {"servers", "volumes"},
    "serverGroups": {"server_groups"},
    "ports": {"ports", "networks"},
    "floatingIps": {"floating_ips"},
    "networks": {"networks"},
    "subnets": {"networks"},
    "routers": {"routers"},
    "securityGroups": {"security_groups"},
    "securityGroupRules": {"security_groups"},
}


def query(login: CloudLogin, cluster: Cluster, *, warn: Warn) -> Facts:
    """Everything that the checks of `cloud.checks` need.

    What the cloud refuses to tell is left out, with a warning.

    Raises:
        ConfigError: when the cloud does not answer a login, or refuses the credentials, or its
            catalog lacks a service that every cluster needs.
    """
    # The import takes half a second, which a run without cloud checks need not spend.
    from cloud.errors import CLOUD_ERRORS

    cloud = connect(login)
    token = token_of(cloud)
    _require_services(cloud, token)
    services = frozenset(name for name in OPTIONAL if cloud.has_service(name))
    questions = dict(REQUIRED)
    for name in services:
        questions |= OPTIONAL[name]

    def ask(question: tuple[str, Question]) -> PartialFacts:
        name, answer = question
        try:
            return answer(cloud, cluster)
        except CLOUD_ERRORS as error:
            warn(f"cloud checks: {name}: not checked, because the cloud did not answer: {error}")
            return {}

    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        answers = list(threads.map(ask, questions.items()))
    limits: dict[str, Limit] = {}
    merged: PartialFacts = {"services": services}
    if token.restricted:
        merged["restricted_login"] = login.key
    for answer in answers:
        limits |= answer.pop("limits", {})
        merged |= answer
    # Without that answer, all that the cluster has would count as still needed.
    usable = {
        name: limit
        for name, limit in limits.items()
        if _COUNTED_IN.get(name, set()) <= merged.keys()
    }
    return Facts(**merged, limits=usable)


def _require_services(cloud: Connection, token: Token) -> None:
    """Refuse a region or an endpoint type in which there is nothing.

    Raises:
        ConfigError: naming the services that are missing, and the regions that there are.
    """
    missing = [name for name in _REQUIRED_SERVICES if not cloud.has_service(name)]
    if not missing:
        return
    region, interface = cloud.config.get_region_name(), cloud.config.get_interface()
    problem = (
        f"the cloud has no {' or '.join(missing)} service of the endpoint type {interface} there; "
        f"its regions are {', '.join(sorted(token.regions)) or 'not told'}: set one of them, or "
        "another openstack:endpointType"
    )
    raise ConfigError([Fault("openstack:region", region or MISSING, problem)])
