"""Wait until every agent has reported to its API: then, and not before, servers can be made."""

from __future__ import annotations

from openstack.connection import Connection
from openstack.exceptions import SDKException
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from lab.cloud.bootstrap import admin

NETWORK_AGENTS = {
    "neutron-linuxbridge-agent", "neutron-dhcp-agent", "neutron-l3-agent",
    "neutron-metadata-agent",
}
COMPUTE_SERVICES = {"nova-conductor", "nova-scheduler", "nova-compute"}
VOLUME_SERVICES = {"cinder-scheduler", "cinder-volume"}


class NotYetError(Exception):
    """Something has not reported; the message names it."""


def missing(cloud: Connection) -> set[str]:
    """The agents that no API counts as up."""
    network = {agent.binary for agent in cloud.network.agents() if agent.is_alive}
    compute = {service.binary for service in cloud.compute.services() if service.state == "up"}
    volume = {s.binary for s in cloud.block_storage.services() if s.state == "up"}
    return (
        (NETWORK_AGENTS - network) | (COMPUTE_SERVICES - compute) | (VOLUME_SERVICES - volume)
    )


@retry(
    retry=retry_if_exception_type((NotYetError, SDKException)),
    before_sleep=lambda state: print(state.outcome and state.outcome.exception(), flush=True),
    stop=stop_after_delay(600), wait=wait_fixed(0.5), reraise=True,
)
def wait(cloud: Connection) -> None:
    """Return when none is missing."""
    names = missing(cloud)
    if names:
        raise NotYetError("not up yet: " + ", ".join(sorted(names)))


if __name__ == "__main__":
    wait(admin())
