"""A Neutron port as a veth pair: the tap in a bridge, the other end in the server."""

from __future__ import annotations

from pathlib import Path

from .command import attempt, run


def tap(vif: dict) -> str:
    """The end that Neutron's agent looks after, by the name it expects."""
    return vif.get("devname") or f"tap{vif['id'][:11]}"


def inner(vif: dict) -> str:
    """The end that goes into the server, while the server is stopped."""
    return f"nic{vif['id'][:11]}"


def plug(vif: dict) -> None:
    """Make the pair and put the tap into its network's bridge; nothing changes the second time.

    Neutron's linuxbridge agent leaves ports of servers to the compute driver.
    """
    bridge = vif["network"].get("bridge") or f"brq{vif['network']['id'][:11]}"
    if not _exists(bridge):
        # The agent may make it at the same time.
        attempt("ip", "link", "add", bridge, "type", "bridge", "forward_delay", 0)
        _no_addresses(bridge)
        run("ip", "link", "set", bridge, "up")
    name = tap(vif)
    if not _exists(name):
        mtu = vif["network"].get("meta", {}).get("mtu") or 1500
        mac = vif["address"]
        # Not the server's own address: the bridge would take its frames for itself.
        outer = f"fe:{mac[3:]}"
        run(
            "ip", "link", "add", name, "mtu", mtu, "address", outer,
            "type", "veth", "peer", "name", inner(vif), "mtu", mtu, "address", mac,
        )  # fmt: skip
        _no_addresses(name)
    run("ip", "link", "set", name, "master", bridge, "up")


def unplug(vif: dict) -> None:
    """Remove the pair, wherever its other end is."""
    attempt("ip", "link", "delete", tap(vif))


def move_in(vif: dict, pid: int, name: str) -> None:
    """Give a running server the other end as its interface `name`."""
    run("ip", "link", "set", inner(vif), "netns", pid, "name", name)
    run("nsenter", "-t", pid, "-n", "ip", "link", "set", name, "up")


def names_in(pid: int) -> set[str]:
    """The names of a running server's interfaces."""
    listing = run("nsenter", "-t", pid, "-n", "ip", "-brief", "link")
    return {line.split()[0].partition("@")[0] for line in listing.splitlines() if line.strip()}


def _exists(device: str) -> bool:
    return Path("/sys/class/net", device).exists()


def _no_addresses(device: str) -> None:
    """The machine itself has no address on it, not even a link-local one."""
    attempt("sysctl", "-q", "-w", f"net.ipv6.conf.{device}.disable_ipv6=1")
