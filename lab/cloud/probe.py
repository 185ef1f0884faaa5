"""Ask every service whether it does its work now. Run inside the lab; prints name -> why not.

That a process runs does not mean that it answers: this is what `lab status` asks when all run.
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
    """The services that do not answer at their address."""
    asked = [unit for unit in units if unit.url or unit.port]
    with ThreadPoolExecutor(len(asked)) as threads:
        found = zip(asked, threads.map(answers, asked), strict=True)
    return {
        unit.name: f"runs, but does not answer at {unit.url or '{}:{}'.format(*(unit.port or ()))}"
        for unit, answered in found
        if not answered
    }


def lost(cloud: Connection) -> dict[str, str]:
    """The agents that their own service has not heard of for too long."""
    heard = {agent.binary: agent.is_alive for agent in cloud.network.agents()}
    for service in (*cloud.compute.services(), *cloud.block_storage.services()):
        heard[service.binary] = service.state == "up"
    return {name: "runs, but has not reported for long" for name, up in heard.items() if not up}


def main() -> None:
    """Agents are asked about only where those who know of them answer."""
    found = silent(services())
    if not found:
        try:
            found = lost(admin())
        except SDKException as error:
            found = {"agents": f"cannot be asked about: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
