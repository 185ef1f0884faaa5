"""Measure `pulumi up` from nothing, small updates, and the lower bound to compare with."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import login, picture, programs, timeline
from bench.cluster import cilium, cluster, from_nothing
from bench.figures import Figures, end_cleanly, median_of, seconds
from bench.inside import result_of
from bench.lower_bound import ONE_MORE
from lab import cluster_size, image
from lab.cluster import Cluster, openstack
from lab.console import step
from lab.image import versions
from lab.paths import ensure

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
    made: Cluster, sizes: Sequence[int], figures: Figures, manifests: Path, pictures: Path
) -> float:
    """Measure the program; returns the seconds until all nodes are Ready."""
    events = manifests.with_name("events")
    up, ready = from_nothing(made, sizes[1] + sizes[2], *timeline.recorded(events))
    title = "pulumi up of {} gateways, {} control planes and {} workers".format(*sizes)
    picture.draw(title, timeline.COLUMNS, timeline.bars(events), pictures / "up.svg")
    figures.add("pulumi up from nothing", up)
    figures.add("pulumi up from nothing, until all nodes are Ready", ready)
    cilium(made, manifests)

    def no_op() -> float:
        with programs.Programs() as ran:
            taken = seconds(made.update)
        unchanged(made)
        title = "pulumi up without changes"
        picture.draw(title, programs.COLUMNS, ran.bars(), pictures / "no-op.svg")
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


def one_more_worker(made: Cluster, workers: int, figures: Figures, events: Path) -> float:
    """Measure adding a worker, which must change nothing but that worker's server."""
    before = servers()
    flags = timeline.recorded(events)
    taken = seconds(lambda: made.update(*flags, workerCount=workers + 1))
    figures.add("one more worker", taken, at_most=ONE_MORE_SECONDS)
    picture.draw("one more worker", timeline.COLUMNS, timeline.bars(events))
    unchanged(made, "create")
    new = servers() - before
    figures.add("servers that are new after it", len(new), "", 1)
    return taken


def main(words: Sequence[str] | None = None) -> None:
    """Measure; whatever happens, the cluster is destroyed."""
    parser = argparse.ArgumentParser(description=__doc__)
    cluster_size.add_options(parser)
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="keep the pictures, up.svg and no-op.svg"
    )
    arguments = parser.parse_args(words)
    end_cleanly()
    sizes = (arguments.gateways, arguments.control_planes, arguments.workers)
    # The first server waits until the cloud has unpacked the image; the lower bound's would not.
    login.from_outside(image.name(versions.KUBERNETES))
    with Figures() as figures:
        made = cluster(NAME, *sizes)
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            manifests = Path(folder) / "cilium.yaml"
            pictures = ensure(arguments.pictures or Path(folder))
            try:
                with step("the program"):
                    ready = program(made, sizes, figures, manifests, pictures)
                    more = one_more_worker(
                        made, arguments.workers, figures, manifests.with_name("worker")
                    )
            finally:
                with step("pulumi destroy"):
                    figures.add("pulumi destroy", seconds(made.destroy))
            with step("the lower bound"):
                bound = lower_bound(sizes, manifests)
        for what, taken in bound.items():
            figures.add(f"lower bound: {what}", taken)
        figures.add("pulumi up to the lower bound", ready / bound["all nodes Ready"], "", RATIO)
        figures.add("one more worker to the lower bound", more / bound[ONE_MORE], "")


if __name__ == "__main__":
    main()
