"""Suites of tests, and their runs by ginkgo; each run leaves a folder with a JUnit file and a log.

Both have the names that the Cloud Native Computing Foundation asks for.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import yaml

from tests.conformance.live import run_tests
from tests.conformance.programs import E2E, GINKGO, ConformanceError

# Serial tests change what the others look at, and disruptive ones restart it.
APART = "(Serial || Disruptive)"
BY_ADDRESS = "access to server in CIDR block|overlapping both IPBlock.CIDR and IPBlock.Except"
BY_ADDRESS_WHY = (
    "Cilium does not match pods by their addresses (its issue 9209), and leaves out these three"
    " itself"
)


@dataclass(frozen=True)
class Run:
    """Tests that run together, by ginkgo's filter of labels and a regular expression for names."""

    labels: str
    focus: str = ""
    one_at_a_time: bool = False
    # Regular expressions for the names of tests that cannot pass on any of our clusters, and why.
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """Runs, by name, that are one page of the documentation; `about` completes "which runs"."""

    title: str
    about: tuple[str, ...]
    runs: Mapping[str, Run]
    # Every conformance test of the cluster's version must pass, none may be missing.
    complete: bool = False
    # Some are tests of CSI drivers, which need a description of the driver.
    csi_driver: bool = False


SUITES = {
    "conformance": Suite(
        "Conformance",
        (
            "every conformance test of Kubernetes'",
            "own end-to-end suite on the cluster of `KUBECONFIG`: first those that tolerate each",
            "other, then the serial ones.",
        ),
        {
            "parallel": Run(f"Conformance && !{APART}"),
            "serial": Run(f"Conformance && {APART}", one_at_a_time=True),
        },
        complete=True,
    ),
    "certified-conformance": Suite(
        "Conformance, for a certificate",
        (
            "every conformance test of Kubernetes'",
            "own end-to-end suite on the cluster of `KUBECONFIG` in one run, one at a time.",
        ),
        {"certified": Run("Conformance", one_at_a_time=True)},
        complete=True,
    ),
    "network-policies": Suite(
        "Network policies",
        (
            "the tests of network policies in Kubernetes'",
            "own end-to-end suite on the cluster of `KUBECONFIG`.",
        ),
        # Those of SCTP have a second feature.
        {
            "policies": Run(
                "Feature: consistsOf NetworkPolicy", left_out={BY_ADDRESS: BY_ADDRESS_WHY}
            )
        },
    ),
    "volumes": Suite(
        "Volumes",
        (
            "the tests of CSI drivers, here Cinder's, in",
            "Kubernetes' own end-to-end suite on the cluster of `KUBECONFIG`.",
        ),
        {"volumes": Run(f"!{APART}", focus="External.Storage")},
        csi_driver=True,
    ),
}


def known(programs: Path) -> list[str]:
    """The name of every conformance test of this version."""
    result = subprocess.run(
        [programs / E2E, "--list-conformance-tests"], check=True, capture_output=True, text=True
    )
    return [each["codename"] for each in yaml.safe_load(result.stdout)]


def run(
    suite: Suite,
    programs: Path,
    results: Path,
    kubeconfig: Path,
    processes: int,
    *flags: str,
    left_out: Iterable[str] = (),
    only: str | None = None,
) -> Iterator[str]:
    """Run a suite, or only this run of it; yields the name of each when it has ended.

    `flags` are for Kubernetes' tests; tests whose names match one of `left_out` are skipped.
    """
    for name, chosen in suite.runs.items():
        if only not in (None, name):
            continue
        folder = results / name
        folder.mkdir(parents=True, exist_ok=True)
        command: list[str | Path] = [
            programs / GINKGO, "run", f"--procs={1 if chosen.one_at_a_time else processes}",
            f"--label-filter={chosen.labels}",
            *([f"--focus={chosen.focus}"] if chosen.focus else []),
            *(f"--skip={each}" for each in (*chosen.left_out, *left_out)),
            "--timeout=24h", "--no-color", "--silence-skips", "-v",
            f"--output-dir={folder}", f"--junit-report={junit(results, name).name}",
            programs / E2E, "--", "--provider=skeleton", f"--kubeconfig={kubeconfig}", *flags,
        ]  # fmt: skip
        log = folder / "e2e.log"
        print(f"running the {name} tests, log: {log}", flush=True)
        missing = f"the {name} tests did not run"
        status = run_tests(command, kubeconfig, log, junit(results, name), missing)
        # Such as one of its processes that was killed: its tests are not in the report.
        if status and not _failures(junit(results, name)):
            raise ConformanceError(f"ginkgo ended with {status} without a failed test, see {log}")
        yield name


def _failures(report: Path) -> int:
    root = ElementTree.parse(report).getroot()
    return sum(int(root.get(kind, 0)) for kind in ("failures", "errors"))


def junit(results: Path, name: str) -> Path:
    """The JUnit file of a run."""
    return results / name / "junit_01.xml"
