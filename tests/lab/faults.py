"""Random faults of a cluster's machines, links and cloud, each undone by whoever caused it."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from lab.cloud import status
from lab.cluster import Cluster, openstack, run
from lab.until import until
from tests.lab import kills, volume_writer
from tests.lab.gateways import Gateway
from tests.lab.health import Health
from tests.lab.traffic import crash

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
    " ctr -n k8s.io images label $image io.cri-containerd.pinned=pinned || exit 1; done"
)
# To the last block, also those that only root may use. Space is only reserved: it costs the lab's
# own disk nothing.
FILL = (
    "mkdir -p /var/lib/full; number=0; for size in 1G 64M 1M 4K; do"
    " while fallocate -l $size /var/lib/full/$((number += 1)); do :; done; done;"
    # Others free some blocks meanwhile.
    ' [ "$(stat -f -c %f /var/lib/full)" -lt 25600 ]'
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
    """A machine whose processes all end at once; what they had written stays."""
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
        server = f"{cluster.name}-{machine}"
        try:
            cluster.stop(server)
            time.sleep(seconds)
        finally:
            _again("openstack", "server", "start", server)

    return Fault(f"{_words(role)} stopped", machine, seconds, happen)


def _isolated(role: str, dice: random.Random) -> Fault:
    """A machine that runs, and that nothing reaches."""
    machine, seconds = _machine(dice, role), dice.randint(20, 90)

    def happen(cluster: Cluster) -> None:
        name = f"{cluster.name}-{machine}"
        port = openstack("port", "show", name)
        if role == "gateway":
            gateway = Gateway(cluster, int(machine.rpartition("-")[2]))
            reached: Callable[[], object] = gateway.boot_id
        else:
            reached = partial(Health.of(cluster, 0).kubelet_answers, name)
        try:
            with _without_arp(port["id"]):
                run("openstack", "port", "set", "--no-security-group", name)
                until(lambda: not reached(), f"the isolation of {name}", 120)
                time.sleep(seconds)
        finally:
            back = [f"--security-group={group}" for group in port["security_group_ids"]]
            _again("openstack", "port", "set", *back, name)

    return Fault(f"{_words(role)} isolated", machine, seconds, happen)


@contextmanager
def _without_arp(port: str) -> Iterator[None]:
    """Drop what security groups let pass: by ARP, a machine would still claim its addresses."""
    device = f"tap{port[:11]}"
    rules = [("FORWARD", end, device, "-p", "ARP", "-j", "DROP") for end in ("-i", "-o")]
    try:
        for rule in rules:
            run("ebtables", "--concurrent", "-I", *rule)
        yield
    finally:
        for rule in rules:
            run("ebtables", "--concurrent", "-D", *rule, check=False)


def _link_lost(dice: random.Random) -> Fault:
    """Two nodes that do not reach each other, while everyone else reaches both."""
    nodes = [f"{role}-{i}" for role in ("control-plane", "worker") for i in range(MACHINES[role])]
    one, other = dice.sample(nodes, 2)
    seconds = dice.randint(20, 90)

    def happen(cluster: Cluster) -> None:
        address = cluster.addresses()[f"{cluster.name}-{other}"]
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

    def pids() -> list[int]:
        return [u.pid for u in status.units() if u.name == service and u.ready and u.pid]

    def happen(cluster: Cluster) -> None:
        until(pids, f"{service} to be up", 120)
        [pid] = pids()
        # With its workers: a service and its children are a process group.
        run("kill", "-STOP", "--", f"-{pid}")
        try:
            # Otherwise nothing would ask OpenStack for anything meanwhile.
            volume_writer.move(cluster)
            time.sleep(seconds)
        finally:
            run("kill", "-CONT", "--", f"-{pid}")
        until(lambda: not status.silent(), "OpenStack to be well", 300)
        _again("openstack", "port", "list")

    return Fault("service of OpenStack stopped", service, seconds, happen)


def _update_killed(dice: random.Random) -> Fault:
    """A `pulumi up` that scales and restarts API servers; the next one finishes it."""
    # An update without changes takes that long.
    seconds = kills.moment(dice, 8, 120)
    # Always another value than the one before.
    arguments = {"event-ttl": f"{dice.randint(60, 100_000)}m"}

    def happen(cluster: Cluster) -> None:
        present = sum("-worker-" in name for name in cluster.addresses())
        # One more, and the next time one less.
        workers = 2 * WORKERS + 1 - present
        if not cluster.killed_up(seconds, workerCount=workers, apiServer={"extraArgs": arguments}):
            print("the update was faster", flush=True)
        cluster.recover()
        cluster.up()

    return Fault("update killed", "to another number of workers", seconds, happen)


def _on_node(cluster: Cluster, machine: str, begin: str, seconds: float, end: str) -> None:
    """Let the node itself begin and end the fault, whatever becomes of the connection to it."""
    script = shlex.quote(f"{begin}; status=$?; sleep {seconds}; {end} && exit $status")
    node, unit = f"{cluster.name}-{machine}", f"soak-{time.time_ns()}"
    as_unit = f"sudo systemd-run --quiet --unit={unit} --remain-after-exit --expand-environment=no"
    cluster.ssh(node, f"{as_unit} sh -c {script}")
    time.sleep(seconds)
    shown: dict[str, str] = {}

    def over() -> bool:
        text = cluster.ssh(node, f"systemctl show --property=SubState --property=Result {unit}")
        shown.update(
            (key, value) for key, _, value in (line.partition("=") for line in text.splitlines())
        )
        return shown["SubState"] in ("exited", "failed", "dead")

    until(over, f"the end of the fault at {node}", 300)
    cluster.ssh(node, f"sudo systemctl stop {unit}; sudo systemctl reset-failed {unit} || true")
    assert shown["Result"] == "success", f"the fault at {node} did not happen: {shown}"


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
