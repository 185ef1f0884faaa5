"""Wait until every agent has reported to its API: then, and not before, servers can be made."""

from __future__ import annotations

from datetime import UTC, datetime

import psutil
from openstack.connection import Connection
from openstack.exceptions import SDKException
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from lab.cloud.bootstrap import admin

NETWORK_AGENTS = {
    "neutron-linuxbridge-agent",
    "neutron-dhcp-agent",
    "neutron-l3-agent",
    "neutron-metadata-agent",
}
COMPUTE_SERVICES = {"nova-conductor", "nova-scheduler", "nova-compute"}
VOLUME_SERVICES = {"cinder-scheduler", "cinder-volume"}


class NotYetError(Exception):
    """Something has not reported; the message names it."""


def reported(when: str | None, since: datetime) -> bool:
    """Tell whether a report is of this start: the saved databases hold some of earlier ones."""
    return when is not None and datetime.fromisoformat(when).replace(tzinfo=UTC) >= since


def missing(cloud: Connection) -> set[str]:
    """The agents that have not reported since the lab's first process started."""
    since = datetime.fromtimestamp(int(psutil.Process(1).create_time()), UTC)
    network = {a.binary for a in cloud.network.agents() if reported(a.last_heartbeat_at, since)}
    compute = {s.binary for s in cloud.compute.services() if reported(s.updated_at, since)}
    volume = {s.binary for s in cloud.block_storage.services() if reported(s.updated_at, since)}
    return (NETWORK_AGENTS - network) | (COMPUTE_SERVICES - compute) | (VOLUME_SERVICES - volume)


@retry(
    retry=retry_if_exception_type((NotYetError, SDKException)),
    before_sleep=lambda state: print(state.outcome and state.outcome.exception(), flush=True),
    stop=stop_after_delay(600),
    wait=wait_fixed(0.5),
    reraise=True,
)
def wait(cloud: Connection) -> None:
    """Return when none is missing."""
    names = missing(cloud)
    if names:
        raise NotYetError("not up yet: " + ", ".join(sorted(names)))


if __name__ == "__main__":
    wait(admin())
