"""Measure `pulumi up` with hundreds of workers. The lab's cloud must be up.

Gateways and control planes are the lab's servers. The workers are hollow nodes (bench/hollow) that
are listed as existing machines: what OpenStack takes to create servers is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.figures import Figures, end_cleanly, processor_seconds, seconds
from bench.hollow.machine import addresses
from bench.up import unchanged
from lab import image, settings
from lab.cloud import inside, namespace
from lab.cloud.layout import EXTERNAL_NETWORK
from lab.cluster import UP, Cluster, openstack, run
from lab.errors import LabError
from lab.image import versions
from lab.paths import PROJECT
from lab.ssh_host import make_key
from lab.until import until

NAME = "scale"
# Neutron's addresses are in the first half, those of the machines in the second.
SUBNET, POOL, FIRST = "10.40.0.0/21", "start=10.40.0.32,end=10.40.3.254", "10.40.4.0"
WORKERS = (2, 100, 250, 500)
# Nodes that leave at a time.
AT_A_TIME = 10
MAKING_SECONDS, NO_OP_SECONDS, STATE_MB = 15 * 60, 60, 50
# Seconds that one more worker may take longer than in the smallest cluster.
ONE_MORE_SECONDS = 10
# For many resources at once (docs/operations/changes.md): the state is written at the end only.
AT_THE_END = {"PULUMI_SKIP_CHECKPOINTS": "true"}
# Seconds of an update: one that is ended would leave its lock.
LONGEST = 4 * 3600
DEVICE = "eth0"


@contextlib.contextmanager
def network() -> Iterator[str]:
    """The network of all machines; yields its bridge on this machine."""
    if openstack("network", "list", "--name", NAME):
        raise LabError(f"an earlier run has left the network {NAME}: `make lab-down` removes it")
    made = openstack("network", "create", NAME)
    try:
        run("openstack", "subnet", "create", NAME, "--network", NAME, "--subnet-range", SUBNET,
            "--allocation-pool", POOL)  # fmt: skip
        run("openstack", "router", "create", NAME, "--external-gateway", EXTERNAL_NETWORK)
        run("openstack", "router", "add", "subnet", NAME, NAME)
        yield f"brq{made['id'][:11]}"
    finally:
        run("openstack", "router", "remove", "subnet", NAME, NAME, check=False)
        run("openstack", "router", "delete", NAME, check=False)
        run("openstack", "network", "delete", NAME, check=False)


@contextlib.contextmanager
def place(bridge: str) -> Iterator[str]:
    """A network namespace at this bridge, in which no one else changes addresses."""
    until(lambda: run("ip", "link", "show", bridge), "the network's bridge", 60)
    run("ip", "netns", "add", NAME)
    try:
        pair = f"ip link add {NAME} mtu 1450 type veth peer name {DEVICE} mtu 1450 netns {NAME}"
        run(*pair.split())
        run("ip", "link", "set", NAME, "master", bridge, "up")
        for device in ("lo", DEVICE):
            run("ip", "-n", NAME, "link", "set", device, "up")
        yield NAME
    finally:
        run("ip", "netns", "delete", NAME)


@contextlib.contextmanager
def hollow_machines(where: str, count: int, folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Run them in this network namespace; yields them as the configuration names machines."""
    for key in ("host", "login"):
        make_key(folder, key)
    places = addresses(FIRST, count)
    length = SUBNET.partition("/")[2]
    batch = "".join(f"address add {address}/{length} dev {DEVICE}\n" for address in places)
    run("ip", "-n", where, "-batch", "-", stdin=batch)
    options = {
        "--first": FIRST,
        "--count": str(count),
        "--host-key": str(folder / "host"),
        "--authorized-keys": str(folder / "login.pub"),
    }
    hollow = [sys.executable, "-m", "bench.hollow"]
    hollow += [word for option in options.items() for word in option]
    with subprocess.Popen(
        namespace.enter(
            ["ip", "netns", "exec", where, *hollow],
            environment=inside.environment(),
            folder=PROJECT,
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as machines:
        try:
            if machines.stdout is None or machines.stdout.readline() != "ready\n":
                raise RuntimeError("the hollow machines do not start")
            host_key = (folder / "host.pub").read_text().strip()
            yield [
                {"name": f"hollow-{number}", "address": address, "hostKey": host_key}
                for number, address in enumerate(places)
            ]
        finally:
            machines.terminate()


def configuration() -> dict[str, Any]:
    """The highly available cluster on that network, without workers."""
    keys = settings.cluster(image=image.name(versions.KUBERNETES), workers=0)
    return {
        **keys,
        "hostCidr": SUBNET,
        "podCidr": "10.240.0.0/12",
        "existingNetwork": {"network": NAME, "subnet": NAME},
    }


class Bench:
    """The cluster, with as many of the machines as a step wants."""

    def __init__(
        self, cluster: Cluster, machines: Sequence[dict[str, Any]], figures: Figures
    ) -> None:
        self.cluster = cluster
        self.machines = machines
        self.figures = figures
        self._one_more: float | None = None

    def up(self, count: int, what: str, *, at_most: float | None = None) -> float:
        """Measure an update to so many workers."""
        pool = {"name": "hollow", "maxUnavailable": AT_A_TIME, "machines": self.machines[:count]}
        self.cluster.stack.configure({"workerPools": [pool] if count else []})
        before = processor_seconds()
        taken = seconds(lambda: self.cluster.stack.pulumi(*UP, timeout=LONGEST))
        self.figures.add(what, taken, at_most=at_most)
        self.figures.add(f"{what}: processor time of Pulumi", processor_seconds() - before)
        return taken

    def size(self, count: int, present: int) -> None:
        """Grow to so many workers, add one more, and change nothing."""
        # The target is for 500 from nothing; of the smallest size, the fixed part is most.
        limit = MAKING_SECONDS * (count - present) / max(WORKERS) if present else None
        what = f"from {present} to {count} workers"
        with patch.dict(os.environ, AT_THE_END):
            taken = self.up(count, what, at_most=limit)
            # Only now do the new ones have a place in the order in which all roll.
            self.up(count, f"the update after that, {count} workers")
        self.figures.add(f"{what}: for each", taken / (count - present))
        slowest = None if self._one_more is None else self._one_more + ONE_MORE_SECONDS
        one_more = self.up(count + 1, f"one more worker than {count}", at_most=slowest)
        self._one_more = self._one_more or one_more
        self.up(count + 1, f"no changes, {count + 1} workers", at_most=NO_OP_SECONDS)
        unchanged(self.cluster)
        exported = self.cluster.stack.pulumi("stack", "export", capture=True).stdout
        size = len(exported) / 1e6
        self.figures.add(f"state of {count + 1} workers", size, "MB", at_most=STATE_MB)


def main(words: Sequence[str] | None = None) -> None:
    """Measure each size; whatever happens, the cluster is destroyed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS, metavar="COUNT")
    arguments = parser.parse_args(words)
    end_cleanly()
    sizes = sorted(arguments.workers)
    with (
        Figures() as figures,
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        network() as bridge,
        place(bridge) as where,
        hollow_machines(where, sizes[-1] + 1, Path(folder)) as machines,
    ):
        bench = Bench(Cluster(NAME, configuration()), machines, figures)
        bench.cluster.set_secret("sshPrivateKey", (Path(folder) / "login").read_text())
        try:
            bench.up(0, "no workers, from nothing")
            present = 0
            for count in sizes:
                bench.size(count, present)
                present = count + 1
            bench.up(present - AT_A_TIME, f"{AT_A_TIME} workers of {present} leave")
        finally:
            destroy = ("destroy", "--yes", "--skip-preview")
            with patch.dict(os.environ, AT_THE_END):
                taken = seconds(lambda: bench.cluster.stack.pulumi(*destroy, timeout=LONGEST))
            figures.add("pulumi destroy", taken)


if __name__ == "__main__":
    main()
