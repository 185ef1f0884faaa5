"""The lab's own figures, as a table: start, servers, memory, a cluster, disk. Needs root."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench.cluster import cluster, from_nothing
from bench.figures import Figures, end_cleanly, median_of, seconds
from lab import cache, image
from lab.cloud import inside, lifecycle, namespace
from tests.lab.cluster import openstack

NAME = "bench-lab"
LOGINS = 3


def memory_gib() -> float:
    """Of every process of the lab, what is shared counted once (PSS).

    Without the kernel's own memory and the page cache: the one is small, the other is given back.
    """
    supervisor = psutil.Process(namespace.running())
    total = 0
    for process in (supervisor, *supervisor.children(recursive=True)):
        # Processes come and go meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += sum(int(w.split()[1]) for w in text.splitlines() if w.startswith("Pss:"))
    return total / (1 << 20)


def login() -> float:
    """Seconds from asking for a server to a login on it."""
    result = subprocess.run(
        namespace.enter([sys.executable, "-m", "bench.login"], environment=inside.environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(json.loads(result.stdout))


def measure(figures: Figures, sizes: Sequence[int]) -> None:
    """Everything that needs the cloud up, and nothing else on it."""
    image.ensure()
    if openstack("server", "list"):
        figures.skip("memory of the idle cloud", "it has servers: it is not idle")
    else:
        figures.add("memory of the idle cloud", memory_gib(), "GiB", 4)
    figures.add(
        f"server create to SSH login, median of {LOGINS}", median_of(login, LOGINS), at_most=15
    )
    made = cluster(NAME, *sizes)
    what = "cluster {}/{}/{} (gateways/control_planes/workers)".format(*sizes)
    try:
        up, ready = from_nothing(made, sizes[1] + sizes[2])
        figures.add(f"{what}: pulumi up from nothing", up, at_most=600)
        figures.add(f"{what}: until all nodes are Ready", ready, at_most=600)
        figures.add(f"{what}: memory of it and the cloud", memory_gib(), "GiB", 10)
    finally:
        figures.add(f"{what}: pulumi destroy", seconds(made.destroy))


def main(words: Sequence[str] | None = None) -> None:
    """Measure; a cloud that was down before is down afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateways", type=int, default=2)
    parser.add_argument("--control-planes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only-size", action="store_true", help="memory and disk as they are now")
    arguments = parser.parse_args(words)
    end_cleanly()
    figures = Figures()
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
    figures.show()


if __name__ == "__main__":
    main()
