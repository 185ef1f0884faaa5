"""Services that not every cloud has (DNS, block storage, load balancers), and the login."""

from collections.abc import Iterator

from cloud.checks.clusters import is_new
from cloud.checks.names import unknown
from cloud.facts import Facts
from cloud.roles import roles
from config.errors import MISSING, Fault
from config.models.cluster import Cluster

_RESTRICTED = (
    "its application credential is restricted, so it cannot create the one that the cluster's own "
    "controllers log in with; use one that was created with --unrestricted"
)


def faults(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """Settings that need a service which the cloud does not have, or a right of the login."""
    yield from _login(cluster, facts)
    services = facts.services
    if cluster.dns is not None:
        zone = cluster.dns.zone
        if services is not None and "dns" not in services:
            yield Fault("dns.zone", zone, "the cloud has no DNS service (Designate); remove dns")
        else:
            yield from unknown("dns.zone", zone, facts.dns_zones, "DNS zone")
    if services is None:
        return
    if "block-storage" not in services:
        volumes = [(f"{role.path}.volume", role.servers.volume) for role in roles(cluster)]
        volumes.append(("controlPlane.etcdVolume", cluster.control_plane.etcd_volume))
        for key, volume in volumes:
            if volume is not None:
                problem = "the cloud has no block storage (Cinder); remove it"
                yield Fault(key, f"{volume.size} GiB", problem)
        if cluster.addons.cinder_csi.enabled:
            problem = "the cloud has no block storage (Cinder); set it to false"
            yield Fault("addons.cinderCsi.enabled", "true", problem)
    if cluster.addons.octavia and "load-balancer" not in services:
        problem = "the cloud has no load balancers (Octavia); set it to gateway"
        yield Fault("addons.loadBalancer", "octavia", problem)


def _login(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    login = _too_restricted(cluster, facts)
    # A running cluster has its own already.
    if login is not None and is_new(cluster, facts):
        yield Fault(login, MISSING, _RESTRICTED)


def warnings(cluster: Cluster, facts: Facts) -> Iterator[str]:
    """A login with which a running cluster cannot be destroyed."""
    login = _too_restricted(cluster, facts)
    if login is not None and not is_new(cluster, facts):
        yield f"{login}: {_RESTRICTED}. Nor can it delete that one on a destroy"


def _too_restricted(cluster: Cluster, facts: Facts) -> str | None:
    """The login, if the cluster's controllers need one that it cannot create."""
    return facts.restricted_login if cluster.addons.log_in_to_cloud else None
