"""Measure `pulumi up` from nothing, small updates, and the lower bound to compare with."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import login
from bench.cluster import cilium, cluster, from_nothing
from bench.figures import Figures, end_cleanly, median_of, seconds
from bench.inside import result_of
from bench.timeline import draw, recorded
from lab import cluster_size, image
from lab.console import step
from lab.image import versions
from tests.lab.cluster import Cluster, openstack

NAME = "bench-up"
RATIO = 1.1
NO_OP_SECONDS = 15.0
NO_OPS = 3
ONE_MORE_SECONDS = 20.0


def lower_bound(sizes: Sequence[int], manifests: Path, *flags: str) -> dict[str, float]:
    """Measure the lower bound inside the lab; returns step -> seconds."""
    options = zip(("--gateways", "--control-planes", "--workers"), map(str, sizes), strict=True)
    words = (word for option in options for word in option)
    found: dict[str, float] = result_of(
        "bench.lower_bound", "--cni", str(manifests), *words, *flags
    )
    return found


def program(
    made: Cluster, sizes: Sequence[int], figures: Figures, manifests: Path, picture: Path | None
) -> float:
    """Measure the program; returns the seconds until all nodes are Ready."""
    events = manifests.with_name("events")
    up, ready = from_nothing(made, sizes[1] + sizes[2], *recorded(events))
    draw("{}+{}+{}, pulumi up from nothing".format(*sizes), events, picture)
    figures.add("pulumi up from nothing", up)
    figures.add("pulumi up from nothing, until all nodes are Ready", ready)
    cilium(made, manifests)

    def no_op() -> float:
        taken = seconds(
            lambda: made.stack.pulumi("up", "--yes", "--skip-preview", "--suppress-outputs")
        )
        unchanged(made)
        return taken

    figures.add(
        f"no-op pulumi up, median of {NO_OPS}", median_of(no_op, NO_OPS), "s", NO_OP_SECONDS
    )
    return ready


def unchanged(made: Cluster, *allowed: str) -> None:
    """Assert that the last update did only what is allowed."""
    changes = made.last_changes()
    if changes.keys() - set(allowed):
        raise AssertionError(f"the update did more than it should: {changes}")


def servers() -> set[str]:
    """Ids of the cluster's servers."""
    return {server["ID"] for server in openstack("server", "list", "--name", f"^{NAME}-")}


def one_more_worker(made: Cluster, workers: int, figures: Figures, events: Path) -> None:
    """Measure adding a worker, which must change nothing but that worker's server."""
    before = servers()
    flags = recorded(events)
    taken = seconds(lambda: made.up(*flags, workerCount=workers + 1))
    figures.add("one more worker", taken, at_most=ONE_MORE_SECONDS)
    draw("one more worker", events)
    unchanged(made, "create")
    new = servers() - before
    figures.add("servers that are new after it", len(new), "", 1)


def main(words: Sequence[str] | None = None) -> None:
    """Measure; whatever happens, the cluster is destroyed."""
    parser = argparse.ArgumentParser(description=__doc__)
    cluster_size.add_options(parser)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the timeline as an SVG")
    arguments = parser.parse_args(words)
    end_cleanly()
    sizes = (arguments.gateways, arguments.control_planes, arguments.workers)
    # The first server waits until the cloud has unpacked the image; the lower bound's would not.
    login.from_outside(image.name(versions.KUBERNETES))
    figures = Figures()
    made = cluster(NAME, *sizes)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        manifests = Path(folder) / "cilium.yaml"
        try:
            with step("the program"):
                ready = program(made, sizes, figures, manifests, arguments.picture)
                one_more_worker(made, arguments.workers, figures, manifests.with_name("worker"))
        finally:
            with step("pulumi destroy"):
                figures.add("pulumi destroy", seconds(made.destroy))
        with step("the lower bound"):
            bound = lower_bound(sizes, manifests)
    for what, taken in bound.items():
        figures.add(f"lower bound: {what}", taken)
    figures.add("pulumi up to the lower bound", ready / bound["all nodes Ready"], "", RATIO)
    figures.show()


if __name__ == "__main__":
    main()
