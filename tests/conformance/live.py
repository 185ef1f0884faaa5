"""The cluster that is tested, and where programs, results and pages of the tests are."""

from __future__ import annotations

import shutil
import subprocess
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
