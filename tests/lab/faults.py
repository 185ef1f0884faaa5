"""Random faults of a cluster's machines, links and cloud, each undone by whoever caused it."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from lab.cloud import status
from tests.lab import kills
from tests.lab.cluster import Cluster, openstack, run
from tests.lab.traffic import crash
from tests.smoke.live import until

GATEWAYS, CONTROL_PLANES, WORKERS = 2, 3, 2
MACHINES = {"gateway": GATEWAYS, "control-plane": CONTROL_PLANES, "worker": WORKERS}
SERVICES = (
    "keystone", "placement", "glance-api", "neutron-server", "neutron-linuxbridge-agent",
    "neutron-dhcp-agent", "neutron-l3-agent", "nova-api", "nova-conductor", "nova-scheduler",
    "nova-compute", "cinder-api", "cinder-scheduler", "cinder-volume",
)  # fmt: skip

# Images came with the node image and nothing could pull them again: a kubelet in need of space
# must not delete them.
KEEP_IMAGES = (
    "for image in $(ctr -n k8s.io images ls -q); do"
    " ctr -n k8s.io images label $image io.cri-containerd.pinned=pinned; done"
)
# To the last block, also those that only root may use. Space is only reserved: it costs the lab's
# own disk nothing.
FILL = (
    "mkdir /var/lib/full; number=0; for size in 1G 64M 1M 4K; do"
    " while fallocate -l $size /var/lib/full/$((number += 1)); do :; done; done"
)
EMPTY = "rm -r /var/lib/full"


@dataclass(frozen=True)
class Fault:
    """One fault: `happen` causes it, and undoes it after so many seconds."""

    kind: str
    where: str
    seconds: float
    happen: Callable[[Cluster], None] = field(repr=False)


def draw(seed: int) -> Iterator[Fault]:
    """Draw faults without end: each kind once, in a random order, then each kind again."""
    dice = random.Random(seed)
    while True:
        for make in dice.sample(KINDS, len(KINDS)):
            yield make(dice)


def _machine(dice: random.Random, *roles: str) -> str:
    """Draw a machine by its name without the cluster's."""
    return dice.choice([f"{role}-{index}" for role in roles for index in range(MACHINES[role])])


def _again(*command: str) -> None:
    """Run a command until it succeeds."""
    until(lambda: run(*command) is not None, " ".join(command), 180)


def _killed(role: str, dice: random.Random) -> Fault:
    """A power cut."""
    machine, seconds = _machine(dice, role), dice.randint(20, 90)

    def happen(cluster: Cluster) -> None:
        server = openstack("server", "show", f"{cluster.name}-{machine}")["id"]
        crash(server)
        try:
            time.sleep(seconds)
        finally:
            _again("openstack", "server", "reboot", "--hard", server)

    return Fault(f"{_words(role)} killed", machine, seconds, happen)


def _stopped(role: str, dice: random.Random) -> Fault:
    """A server that somebody stops."""
    machine, seconds = _machine(dice, role), dice.randint(20, 90)

    def happen(cluster: Cluster) -> None:
        server = openstack("server", "show", f"{cluster.name}-{machine}")["id"]

        def off() -> bool:
            return bool(openstack("server", "show", server)["status"] == "SHUTOFF")

        run("openstack", "server", "stop", server)
        try:
            until(off, "the end of the server", 180)
            time.sleep(seconds)
        finally:
            _again("openstack", "server", "start", server)

    return Fault(f"{_words(role)} stopped", machine, seconds, happen)


def _isolated(role: str, dice: random.Random) -> Fault:
    """A machine that runs, and that its security groups isolate from everything."""
    machine, seconds = _machine(dice, role), dice.randint(20, 90)

    def happen(cluster: Cluster) -> None:
        port = f"{cluster.name}-{machine}"
        groups = openstack("port", "show", port)["security_group_ids"]
        try:
            run("openstack", "port", "set", "--no-security-group", port)
            time.sleep(seconds)
        finally:
            back = [f"--security-group={group}" for group in groups]
            _again("openstack", "port", "set", *back, port)

    return Fault(f"{_words(role)} isolated", machine, seconds, happen)


def _link_lost(dice: random.Random) -> Fault:
    """Two nodes that do not reach each other, while everyone else reaches both."""
    nodes = [f"{role}-{i}" for role in ("control-plane", "worker") for i in range(MACHINES[role])]
    one, other = dice.sample(nodes, 2)
    seconds = dice.randint(20, 90)

    def happen(cluster: Cluster) -> None:
        addresses = {each["name"]: each["address"] for each in cluster.stack.outputs()["nodes"]}
        address = addresses[f"{cluster.name}-{other}"]
        rules = [
            "add table inet lost",
            *(
                rule
                for hook, end in (("input", "saddr"), ("output", "daddr"))
                for rule in (
                    f"add chain inet lost {hook} {{ type filter hook {hook} priority -10; }}",
                    f"add rule inet lost {hook} ip {end} {address} drop",
                )
            ),
        ]
        cut = " && ".join(f"nft {shlex.quote(rule)}" for rule in rules)
        _on_node(cluster, one, cut, seconds, "nft delete table inet lost")

    return Fault("link between two nodes lost", f"{one} to {other}", seconds, happen)


def _disk_full(dice: random.Random) -> Fault:
    """A node without a free block on its disk."""
    machine, seconds = _machine(dice, "control-plane", "worker"), dice.randint(20, 60)

    def happen(cluster: Cluster) -> None:
        cluster.ssh(f"{cluster.name}-{machine}", f"sudo sh -c {shlex.quote(KEEP_IMAGES)}")
        _on_node(cluster, machine, FILL, seconds, EMPTY)

    return Fault("disk of a node full", machine, seconds, happen)


def _etcd_paused(dice: random.Random) -> Fault:
    """An etcd whose process stands still, as on a hypervisor that is far too busy."""
    machine, seconds = _machine(dice, "control-plane"), dice.randint(3, 25)

    def happen(cluster: Cluster) -> None:
        _on_node(cluster, machine, "pkill -STOP -x etcd", seconds, "pkill -CONT -x etcd")

    return Fault("etcd paused", machine, seconds, happen)


def _service_stopped(dice: random.Random) -> Fault:
    """A service of OpenStack that takes requests and never answers."""
    service, seconds = dice.choice(SERVICES), dice.randint(20, 90)

    def happen(_: Cluster) -> None:
        # With its workers: a service and its children are a process group.
        [pid] = [unit.pid for unit in status.units() if unit.name == service]
        run("kill", "-STOP", "--", f"-{pid}")
        try:
            time.sleep(seconds)
        finally:
            run("kill", "-CONT", "--", f"-{pid}")
        until(lambda: not status.silent(), "OpenStack to be well", 300)

    return Fault("service of OpenStack stopped", service, seconds, happen)


def _update_killed(dice: random.Random) -> Fault:
    """A `pulumi up` that scales and restarts API servers; the next one finishes it."""
    workers = dice.choice((WORKERS, WORKERS + 1))
    seconds = kills.moment(dice, 3, 60)
    # Always another value than the one before.
    arguments = {"event-ttl": f"{dice.randint(60, 100_000)}m"}

    def happen(cluster: Cluster) -> None:
        cluster.killed_up(seconds, workerCount=workers, apiServer={"extraArgs": arguments})
        cluster.recover()
        cluster.up()

    return Fault("update killed", f"to {workers} workers", seconds, happen)


def _on_node(cluster: Cluster, machine: str, begin: str, seconds: float, end: str) -> None:
    """Let the node itself begin and end the fault, whatever becomes of the connection to it."""
    script = shlex.quote(f"{begin}; status=$?; sleep {seconds}; {end} && exit $status")
    node = f"{cluster.name}-{machine}"
    as_unit = "sudo systemd-run --quiet --collect --wait --expand-environment=no"
    cluster.ssh(node, f"{as_unit} sh -c {script}")


def _words(role: str) -> str:
    return role.replace("-", " ")


KINDS: tuple[Callable[[random.Random], Fault], ...] = (
    *(partial(make, role) for make in (_killed, _stopped, _isolated) for role in MACHINES),
    _link_lost,
    _disk_full,
    _etcd_paused,
    _service_stopped,
    _update_killed,
)
