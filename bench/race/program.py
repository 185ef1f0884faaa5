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
    try:
        began = datetime.now(UTC)
        # `pulumi up`. It also waits for the add-ons, which the others do not have.
        created = measured(lambda: made.update(kubernetesVersion=old), by_hand=1)
        made.stack.write_kubeconfig(made.kubeconfig)
        nodes = made.kubectl("get", "nodes", "-o", "json")
        ready = until_ready(nodes, CONTROL_PLANES + WORKERS, began)
        done[step.CREATE] = dataclasses.replace(created, seconds=ready)
        cilium(made, manifests)
        # `pulumi config set`, `pulumi up`
        done[step.ONE_MORE_WORKER] = measured(
            lambda: made.update(workerCount=WORKERS + 1), by_hand=2
        )
        done[step.NO_CHANGE] = measured(made.update, by_hand=1)
        run("openstack", "server", "delete", "--wait", _server(LOST))
        done[step.LOST_CONTROL_PLANE] = measured(lambda: made.update("--refresh"), by_hand=1)
        with Poll(made.endpoint) as poll:
            upgraded = measured(lambda: made.update(kubernetesVersion=new), by_hand=2)
        done[step.UPGRADE] = dataclasses.replace(upgraded, failed=poll.failed, silence=poll.longest)
    finally:
        made.destroy()


def _server(name: str) -> str:
    [server] = openstack("server", "list", "--name", f"^{name}$")
    return str(server["ID"])
