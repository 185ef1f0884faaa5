"""The shell of the workflows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

PREVIEW = Path(__file__).resolve().parents[2] / ".github/workflows/preview.yml"


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_every_stack_is_previewed_but_not_the_pattern_for_them(tmp_path: Path) -> None:
    for name in ("Pulumi.yaml", "Pulumi.admin.yaml", "Pulumi.b.yaml", "Pulumi.a.yaml", "a.yaml"):
        (tmp_path / name).touch()
    [step] = [
        each
        for each in yaml.safe_load(PREVIEW.read_text())["jobs"]["stacks"]["steps"]
        if each.get("id") == "list"
    ]
    output = tmp_path / "output"
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, "GITHUB_OUTPUT": str(output)},
        check=True,
    )
    key, _, names = output.read_text().strip().partition("=")
    assert (key, json.loads(names)) == ("names", ["a", "b"])
