"""Race the program, bare kubeadm and kubespray on the lab's cloud, in turn. Needs root.

The runs are kept in docs/race.json, and docs/race.md is written after each contestant. kubespray
is a checkout that you have; its requirements are installed in the cache.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import login
from bench.figures import end_cleanly
from bench.race import page, program, results, step
from bench.race.program import CONTROL_PLANES, GATEWAYS, WORKERS
from bench.race.results import Run
from bench.race.step import Step, measured
from bench.up import lower_bound
from lab import console, image
from lab.cloud import inside, namespace
from lab.image import versions
from lab.paths import CACHE, LOGS, PROJECT, ensure

NEW, OLD = versions.KUBERNETES_RELEASES
PROGRAM, KUBEADM, KUBESPRAY = "openstack-kubernetes", "bare kubeadm", "kubespray"
# The pod network of the program's cluster, which the others get too.
MANIFESTS = CACHE / "race-pod-network.yaml"
# The average of a minute: the idle cloud of the lab is not silent. The page tells the load.
QUIET_LOAD = 0.5
QUIET_SECONDS = 600


def bare_kubeadm(done: dict[str, Step]) -> None:
    """Run the lower bound, a script that can create a cluster and nothing else."""
    bound: dict[str, float] = {}
    sizes = (GATEWAYS, CONTROL_PLANES, WORKERS)
    made = measured(lambda: bound.update(lower_bound(sizes, MANIFESTS, "--release", OLD)))
    servers = bound["SSH to the first control plane"]
    done[step.CREATE] = dataclasses.replace(
        made, seconds=bound["all nodes Ready"] - servers, servers=servers
    )


def kubespray(done: dict[str, Step], checkout: Path) -> None:
    """Run kubespray inside the lab; what it did before a failure counts."""
    logs = ensure(LOGS / "kubespray")
    command = [
        *(sys.executable, "-m", "bench.race.kubespray"),
        *("--checkout", str(checkout), "--programs", str(programs(checkout))),
        *("--manifests", str(MANIFESTS), "--logs", str(logs)),
        *("--image", image.name(OLD), "--old", OLD, "--new", NEW),
    ]
    result = subprocess.run(
        namespace.enter(command, environment=inside.environment(), folder=PROJECT),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    done |= {what: Step(**made) for what, made in json.loads(result.stdout or "{}").items()}
    result.check_returncode()


def programs(checkout: Path) -> Path:
    """Install Ansible as the checkout asks for it; returns the folder of its programs."""
    folder = CACHE / "kubespray"
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-r", str(checkout / "requirements.txt")], check=True)
    return folder / "bin"


def wait_for_quiet() -> float:
    """Wait until the machine has done with the last contestant; returns its load then."""
    end = time.monotonic() + QUIET_SECONDS
    while (load := os.getloadavg()[0]) > QUIET_LOAD and time.monotonic() < end:
        time.sleep(5)
    return load


def main(words: Sequence[str] | None = None) -> None:
    """Let each contestant run; the page shows what is known after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubespray", type=Path, metavar="FOLDER", help="a checkout of kubespray")
    parser.add_argument(
        "--only", action="append", choices=(PROGRAM, KUBEADM, KUBESPRAY), help="can be repeated"
    )
    parser.add_argument("--runs", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--fresh", action="store_true", help="forget their earlier runs")
    arguments = parser.parse_args(words)
    if arguments.only and PROGRAM not in arguments.only and not MANIFESTS.exists():
        parser.error(f"{PROGRAM} must run first: the others get the pod network of its cluster")
    if arguments.only and KUBESPRAY in arguments.only and not arguments.kubespray:
        parser.error(f"--only {KUBESPRAY} needs --kubespray FOLDER")
    end_cleanly()
    # The first server waits until the cloud has unpacked the image; those of others would not.
    login.from_outside(image.ensure([OLD, NEW]))
    contestants: dict[str, Callable[[dict[str, Step]], None]] = {
        PROGRAM: lambda done: program.race(done, image.name(OLD), OLD, NEW, MANIFESTS),
        KUBEADM: bare_kubeadm,
    }
    checkouts = {KUBESPRAY: arguments.kubespray} if arguments.kubespray else {}
    if arguments.kubespray:
        contestants[KUBESPRAY] = lambda done: kubespray(done, arguments.kubespray.absolute())
    chosen = arguments.only or list(contestants)
    known = results.load()
    if arguments.fresh:
        known = {name: runs for name, runs in known.items() if name not in chosen}
    for run in range(arguments.runs):
        # Each run begins with another one; the first time, the others need the program's manifests.
        turn = run % len(chosen)
        for contestant in (*chosen[turn:], *chosen[:turn]):
            done: dict[str, Step] = {}
            version = results.version(checkouts.get(contestant, PROJECT))
            busy = wait_for_quiet()
            try:
                with console.step(contestant):
                    contestants[contestant](done)
            finally:
                # A run that failed counts, one that was stopped before its first step does not.
                if done or not isinstance(sys.exception(), SystemExit):
                    made = Run(
                        version=version,
                        day=str(datetime.now(UTC).date()),
                        releases=[OLD, NEW],
                        load=busy,
                        steps=done,
                    )
                    known[contestant] = results.with_run(known.get(contestant, []), made)
                    results.save(known)
                    page.publish(known)


if __name__ == "__main__":
    main()
