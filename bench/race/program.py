"""The program in the race."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

from bench.cluster import cilium, require_nothing, until_ready
from bench.race import step
from bench.race.step import Step, measured
from lab import settings
from lab.cluster import Cluster, openstack, run
from lab.poll import Poll

NAME = "race"
GATEWAYS, CONTROL_PLANES, WORKERS = 2, 3, 2
LOST = f"{NAME}-control-plane-2"


def race(done: dict[str, Step], image: str, old: str, new: str, manifests: Path) -> None:
    """Run every step; writes the manifests of its pod network, which the others use."""
    keys = settings.cluster(
        image=image, gateways=GATEWAYS, control_planes=CONTROL_PLANES, workers=WORKERS
    )
    made = Cluster(NAME, keys)
    require_nothing(made)
    began = datetime.now(UTC)

    def ready(workers: int, release: str = old) -> float:
        nodes = made.kubectl("get", "nodes", "-o", "json")
        return until_ready(nodes, CONTROL_PLANES + workers, began, release)

    try:
        # `pulumi up`. It also waits for the add-ons, which the others do not have.
        created = measured(lambda: made.update(kubernetesVersion=old), by_hand=1)
        made.stack.write_kubeconfig(made.kubeconfig)
        done[step.CREATE] = dataclasses.replace(created, seconds=ready(WORKERS))
        cilium(made, manifests)
        # `pulumi config set`, `pulumi up`. It ends when the new worker is Ready.
        one_more = measured(lambda: made.update(workerCount=WORKERS + 1), by_hand=2)
        ready(WORKERS + 1)
        done[step.ONE_MORE_WORKER] = one_more
        done[step.NO_CHANGE] = measured(made.update, by_hand=1)
        run("openstack", "server", "delete", "--wait", _server(LOST))
        replaced = measured(lambda: made.update("--refresh"), by_hand=1)
        ready(WORKERS + 1)
        done[step.LOST_CONTROL_PLANE] = replaced
        with Poll(made.endpoint) as poll:
            upgraded = measured(lambda: made.update(kubernetesVersion=new), by_hand=2)
        ready(WORKERS + 1, new)
        done[step.UPGRADE] = dataclasses.replace(upgraded, failed=poll.failed, silence=poll.longest)
    finally:
        made.destroy()


def _server(name: str) -> str:
    [server] = openstack("server", "list", "--name", f"^{name}$")
    return str(server["ID"])
