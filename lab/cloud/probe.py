"""Ask every service whether it works, from inside the lab; prints name -> reason as JSON.

A process that runs may still not answer: `lab status` runs this when all processes are up.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from openstack.connection import Connection
from openstack.exceptions import SDKException

from lab.cloud.bootstrap import admin
from lab.cloud.supervisor import answers
from lab.cloud.units import Unit, services


def silent(units: list[Unit]) -> dict[str, str]:
    """Services that do not answer at their address, with the reason."""
    asked = [unit for unit in units if unit.url or unit.port]
    with ThreadPoolExecutor(len(asked)) as threads:
        found = zip(asked, threads.map(answers, asked), strict=True)
    return {
        unit.name: f"runs, but does not answer at {unit.url or '{}:{}'.format(*(unit.port or ()))}"
        for unit, answered in found
        if not answered
    }


def lost(cloud: Connection) -> dict[str, str]:
    """Agents that have not reported to their own service for too long, with the reason."""
    heard = {agent.binary: agent.is_alive for agent in cloud.network.agents()}
    for service in (*cloud.compute.services(), *cloud.block_storage.services()):
        heard[service.binary] = service.state == "up"
    return {name: "runs, but has stopped reporting" for name, up in heard.items() if not up}


def main() -> None:
    """Print what does not work; the services know of the agents, so they are asked first."""
    found = silent(services())
    if not found:
        try:
            found = lost(admin())
        except SDKException as error:
            found = {"agents": f"their state is unknown: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
