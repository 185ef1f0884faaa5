"""Measure a preview with hundreds of workers. The lab's cloud must be up.

Only the engine and the program are measured: no cloud checks, and no charts of add-ons. The cloud
is asked for a token and for the external network only.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import Figures, processor_seconds, timed
from bench.quiet import QuietStack
from lab import image, settings
from lab.errors import LabError
from lab.image import versions
from lab.stack import Stack

WORKERS = (100, 250, 500)
AT_MOST_SECONDS = 30.0
AT_MOST_WORKERS = 500
NO_CHARTS = {
    "cni": {"kind": "none"},
    "cinderCsi": {"enabled": False},
    "metricsServer": {"enabled": False},
}


def configuration(workers: int, *, charts: bool) -> dict[str, Any]:
    """Configuration of a cluster with that many workers."""
    keys = settings.cluster(image=image.name(versions.KUBERNETES), workers=workers)
    keys |= {"cloudChecks": False, "podCidr": "10.240.0.0/12"}
    if not charts:
        keys["addons"] = NO_CHARTS
    return keys


def preview(stack: Stack, keys: Mapping[str, Any]) -> tuple[float, float, int]:
    """Measure seconds and processor seconds of a preview; returns also its number of resources."""
    stack.configure(keys)
    before = processor_seconds()
    done, taken = timed(lambda: stack.pulumi("preview", "--suppress-outputs", capture=True))
    found = re.search(r"\+ (\d+) to create", done.stdout)
    if found is None:
        raise LabError(f"the preview does not say what it would create:\n{done.stdout}")
    return taken, processor_seconds() - before, int(found[1])


def main(words: Sequence[str] | None = None) -> None:
    """Preview each size once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS, metavar="COUNT")
    parser.add_argument("--charts", action="store_true", help="with the add-ons' charts")
    parser.add_argument("--log", action="store_true", help="with the CLI's automatic log")
    arguments = parser.parse_args(words)
    kind = Stack if arguments.log else QuietStack
    stack = kind("bench-preview", {})
    with Figures() as figures:
        for workers in arguments.workers:
            keys = configuration(workers, charts=arguments.charts)
            taken, processor, resources = preview(stack, keys)
            target = AT_MOST_SECONDS if workers == AT_MOST_WORKERS else None
            what = f"preview with {workers} workers ({resources} resources)"
            figures.add(what, taken, at_most=target)
            figures.add(f"{what}, processor time", processor)


if __name__ == "__main__":
    main()
