"""A connection from the host to the lab's external network: a veth pair, a route, an address.

The host uses an address of the external network that no floating IP can have, and the lab
translates it to its own. So the lab needs no route to the host, and no server can reach the host.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path

from lab.cloud import namespace
from lab.cloud.layout import API, BRIDGE, EXTERNAL_CIDR
from lab.errors import LabError

# Outside the range of the floating IPs.
HOST_ADDRESS = "172.24.4.2"
# The host's end of the veth pair, and the lab's. Both disappear with the lab, as does the route.
OUTER = "openstack-lab"
INNER = "host"
# In the lab's own firewall; {} becomes -A or -D.
RULES = (
    f"-t nat {{}} POSTROUTING -s {HOST_ADDRESS}/32 -o {BRIDGE} -j SNAT --to-source {API}",
    # Only answers reach the host.
    f"-t filter {{}} FORWARD -o {INNER} -m conntrack --ctstate NEW -j DROP",
)


def is_on() -> bool:
    """True if the host has the route."""
    if not Path("/sys/class/net", OUTER).exists():
        return False
    return EXTERNAL_CIDR in _host("ip", "route", "show", "dev", OUTER)


def turn_on() -> None:
    """Make the connection; do nothing when it is there already."""
    pid = namespace.running()
    if not pid:
        raise LabError("no lab is running: start it with `.venv/bin/python -m lab cloud up`")
    if is_on():
        return
    # An earlier call may have been interrupted.
    turn_off()
    _refuse_another_route()
    try:
        _host(*f"ip link add {OUTER} type veth peer name {INNER} netns {pid}".split())
        for command in (
            f"ip link set {INNER} up",
            f"ip route add {HOST_ADDRESS}/32 dev {INNER}",
            *(f"iptables -w {rule.format('-A')}" for rule in RULES),
        ):
            _inside(*command.split())
        for command in (
            f"ip link set {OUTER} addrgenmode none",
            f"ip address add {HOST_ADDRESS}/32 dev {OUTER}",
            f"ip link set {OUTER} up",
            f"ip route add {EXTERNAL_CIDR} via {API} dev {OUTER} src {HOST_ADDRESS} onlink",
        ):
            _host(*command.split())
    except BaseException:
        turn_off()
        raise


def turn_off() -> None:
    """Remove the connection; do nothing when there is none."""
    if not Path("/sys/class/net", OUTER).exists():
        return
    if namespace.running():
        for rule in RULES:
            _inside("iptables", "-w", *rule.format("-D").split(), ok=False)
    # Last, because everything above is skipped once it is gone.
    _host("ip", "link", "delete", OUTER, ok=False)


def _refuse_another_route() -> None:
    """Refuse when the host uses these addresses itself."""
    wanted = ip_network(EXTERNAL_CIDR)
    for line in _host("ip", "route", "show", "table", "all").splitlines():
        words = [w for w in line.split() if w not in ("local", "broadcast", "unreachable")]
        try:
            known = ip_network(words[0])
        except ValueError:
            continue
        if known.prefixlen and known.version == wanted.version and known.overlaps(wanted):
            raise LabError(
                f"this machine already has a route that overlaps {EXTERNAL_CIDR} ({line.strip()}): "
                "reach the lab's floating IPs with `.venv/bin/python -m lab run -- COMMAND` instead"
            )


def _host(*command: str, ok: bool = True) -> str:
    return _run(command, ok=ok)


def _inside(*command: str, ok: bool = True) -> str:
    return _run(namespace.enter(command), ok=ok)


def _run(command: Sequence[str], *, ok: bool) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if ok and result.returncode != 0:
        raise LabError(f"`{' '.join(command)}` failed: {result.stderr.strip()}")
    return result.stdout
