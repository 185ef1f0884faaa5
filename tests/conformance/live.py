"""The cluster that is tested, and where programs, results and pages of the tests are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.programs import ConformanceError

PROJECT = Path(__file__).resolve().parents[2]
PAGES = PROJECT / "docs"
# Programs and results of each version; nothing in it belongs to the project.
FOLDER = PROJECT / ".conformance"


def kubectl(kubeconfig: Path, *words: str) -> str:
    """Ask the cluster."""
    if shutil.which("kubectl") is None:
        raise ConformanceError("the tests call kubectl, which is not on PATH: install it")
    result = subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", "--request-timeout=20s", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode != 0:
        raise ConformanceError(
            f"the cluster of KUBECONFIG={kubeconfig} does not answer: {result.stderr.strip()}"
        )
    return result.stdout


def run_tests(
    command: Sequence[str | Path], kubeconfig: Path, log: Path, result: Path, missing: str
) -> int:
    """Run tests, which write a result whatever their outcome; returns their exit status.

    Raises:
        ConformanceError: there is no result; it begins with `missing`, and has the end of the log.
    """
    # A run that is interrupted must not leave the result of an older one.
    result.unlink(missing_ok=True)
    with log.open("w") as output:
        status = subprocess.run(
            command, cwd=log.parent, env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False,
        ).returncode  # fmt: skip
    if not result.exists():
        end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise ConformanceError(f"{missing}, see {log}:\n{end}")
    return status
