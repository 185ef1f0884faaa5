"""Runs of the tests by ginkgo; each leaves a JUnit file and a log."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.conformance.programs import E2E, GINKGO, ConformanceError

# Serial tests change what the others look at, and disruptive ones restart it.
APART = "(Serial || Disruptive)"
SERIAL = "serial"
# Name -> ginkgo's filter of labels.
RUNS = {
    "parallel": f"Conformance && !{APART}",
    SERIAL: f"Conformance && {APART}",
    "network-policy": "Feature: containsAny NetworkPolicy",
}


def known(programs: Path) -> list[str]:
    """The name of every conformance test of this version."""
    result = subprocess.run(
        [programs / E2E, "--list-conformance-tests"], check=True, capture_output=True, text=True
    )
    return [each["codename"] for each in yaml.safe_load(result.stdout)]


def run(programs: Path, results: Path, kubeconfig: Path, processes: int) -> Iterator[str]:
    """Run all of them; yields the name of each run when it has ended, whatever its outcome."""
    results.mkdir(parents=True, exist_ok=True)
    for name, labels in RUNS.items():
        # A run that is interrupted must not leave the outcomes of an older one.
        junit(results, name).unlink(missing_ok=True)
        command: list[str | Path] = [
            programs / GINKGO, "run", f"--procs={1 if name == SERIAL else processes}",
            f"--label-filter={labels}", "--timeout=24h", "--no-color", "--silence-skips",
            f"--output-dir={results}", f"--junit-report={junit(results, name).name}",
            programs / E2E, "--", "--provider=skeleton", f"--kubeconfig={kubeconfig}",
        ]  # fmt: skip
        log = results / f"{name}.log"
        print(f"running the {name} tests, log: {log}", flush=True)
        with log.open("w") as output:
            # Its status says no more than the file: tests have failed.
            subprocess.run(
                command, cwd=results, env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False,
            )  # fmt: skip
        if not junit(results, name).exists():
            end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise ConformanceError(f"the {name} tests did not run, see {log}:\n{end}")
        yield name


def junit(results: Path, name: str) -> Path:
    """The JUnit file of a run."""
    return results / f"{name}.xml"
