"""Measure the lab itself: start, servers, memory, a cluster, disk. Needs root."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import psutil

from bench import login, memory
from bench.cluster import cluster, from_nothing
from bench.figures import Figures, end_cleanly, median_of, seconds
from lab import cache, cluster_size, image
from lab.cloud import lifecycle, namespace
from lab.cluster import openstack

NAME = "bench-lab"
LOGINS = 3


def memory_gib() -> float:
    """Measure the memory of all processes of the lab, with shared pages counted once (PSS).

    The kernel's own memory is small, and the page cache is given back: neither is included.
    """
    supervisor = psutil.Process(namespace.running())
    return memory.kib((supervisor, *supervisor.children(recursive=True))) / (1 << 20)


def measure(figures: Figures, sizes: Sequence[int]) -> None:
    """Measure everything that needs the cloud up and unused."""
    image.ensure()
    if openstack("server", "list"):
        figures.skip("memory of the idle cloud", "it is not idle: it has servers")
    else:
        figures.add("memory of the idle cloud", memory_gib(), "GiB", 4)
    figures.add(
        f"server create to SSH login, median of {LOGINS}",
        median_of(login.from_outside, LOGINS),
        at_most=15,
    )
    made = cluster(NAME, *sizes)
    what = "cluster {}/{}/{} (gateways/control planes/workers)".format(*sizes)
    try:
        up, ready = from_nothing(made, sizes[1] + sizes[2])
        figures.add(f"{what}: pulumi up from nothing", up, at_most=600)
        figures.add(f"{what}: until all nodes are Ready", ready, at_most=600)
        figures.add(f"{what}: memory of it and the cloud", memory_gib(), "GiB", 10)
    finally:
        figures.add(f"{what}: pulumi destroy", seconds(made.destroy))


def main(words: Sequence[str] | None = None) -> None:
    """Measure; a cloud that was down before is taken down afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    cluster_size.add_options(parser)
    parser.add_argument(
        "--only-size", action="store_true", help="only memory and disk, as they are now"
    )
    arguments = parser.parse_args(words)
    end_cleanly()
    with Figures() as figures:
        if arguments.only_size:
            figures.add("memory of the lab, with what runs on it now", memory_gib(), "GiB")
        else:
            was_up = bool(namespace.running())
            if was_up:
                figures.skip("warm cloud up", "the cloud was up already: take it down first")
            else:
                figures.add("warm cloud up", seconds(lifecycle.up), at_most=60)
            try:
                measure(figures, (arguments.gateways, arguments.control_planes, arguments.workers))
            finally:
                if not was_up:
                    lifecycle.down()
        figures.add("disk left in the cache", cache.size() / 1e9, "GB", 20)


if __name__ == "__main__":
    main()
