"""Run a suite of tests that others wrote on the cluster of KUBECONFIG, and write its page."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conformance import driver, gateway_api, page, programs, suite
from tests.conformance.live import FOLDER, PAGES, kubectl
from tests.conformance.programs import ConformanceError


def check(
    name: str,
    kubeconfig: Path,
    processes: int,
    note: str,
    left_out: Mapping[str, str],
    only: str | None,
) -> bool:
    """Run a suite, or one run of it, and write its page; tells whether all of it has passed."""
    chosen = suite.SUITES[name]
    if only not in (None, *chosen.runs):
        raise ConformanceError(f"--only {only}: the runs of {name} are {', '.join(chosen.runs)}")
    said = kubectl(kubeconfig, "version", "-o", "json")
    version = str(json.loads(said)["serverVersion"]["gitVersion"]).partition("+")[0]
    nodes = len(kubectl(kubeconfig, "get", "nodes", "-o", "name").split())
    folder = FOLDER / version
    built, results = programs.build(version, folder), folder / "results"
    runs: dict[str, page.Results] = {}
    report = page.Report(
        suite=name, version=version, nodes=nodes, runs=runs,
        known=suite.known(built) if chosen.complete else [], note=note, left_out=left_out,
    )  # fmt: skip
    for run in chosen.runs if only else ():
        file = suite.junit(results, run)
        if run != only and file.exists():
            runs[run] = page.read(file)
    flags = []
    if chosen.csi_driver:
        crds = kubectl(kubeconfig, "get", "crd", "-o", "name")
        described = driver.write(results, snapshots="volumesnapshots." in crds)
        flags.append(f"--storage.testdriver={described}")
    written = PAGES / f"{name}.md"
    for run in suite.run(
        chosen, built, results, kubeconfig, processes, *flags, left_out=left_out, only=only
    ):
        runs[run] = page.read(suite.junit(results, run))
        # After each of them: the next one takes long, too, and may be interrupted.
        written.write_text(report.text())
    counted = ", ".join(
        f"{len(report.having(status))} {status}" for status in ("passed", "failed", "skipped")
    )
    print(f"{counted}, {len(report.not_run())} not run: {written}; JUnit and logs: {results}")
    return report.passed()


def main(words: list[str] | None = None) -> int:
    """Return 0 if the suite has passed."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("suite", choices=[*suite.SUITES, gateway_api.NAME])
    default = os.environ.get("KUBECONFIG") or "~/.kube/config"
    parser.add_argument("--kubeconfig", type=Path, default=Path(default))
    parser.add_argument("--procs", type=int, default=4, help="tests at a time (default: 4)")
    parser.add_argument("--note", default="", help="a sentence for the page, about the cluster")
    parser.add_argument(
        "--only",
        metavar="RUN",
        help="of the suite; the others have the results that their JUnit files have",
    )
    parser.add_argument(
        "--leave-out", nargs=2, action="append", default=[], metavar=("REGEX", "WHY"),
        help="do not run the tests whose names match; the page says why",
    )  # fmt: skip
    arguments = parser.parse_args(words)
    kubeconfig = arguments.kubeconfig.expanduser().resolve()
    try:
        if not kubeconfig.is_file():
            raise ConformanceError(f"KUBECONFIG={kubeconfig}: there is no such file")
        if arguments.suite == gateway_api.NAME and arguments.only:
            raise ConformanceError(f"--only {arguments.only}: {gateway_api.NAME} is one run")
        if arguments.suite == gateway_api.NAME:
            passed = gateway_api.check(kubeconfig, arguments.note)
        else:
            passed = check(
                arguments.suite, kubeconfig, arguments.procs, arguments.note,
                dict(arguments.leave_out), arguments.only,
            )  # fmt: skip
        return 0 if passed else 1
    except ConformanceError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
