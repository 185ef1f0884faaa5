"""`pulumi new` from a clone of this repository, whose answers preview on the lab's cloud."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import image
from lab.cloud import layout, namespace
from lab.image.charts import CHARTS
from lab.paths import PROJECT, ensure
from tests.lab import marks, own_backend

pytestmark = marks.SDK

STACK = "demo"


def pulumi(folder: Path, *words: str) -> str:
    """Output of the CLI in a folder, with a backend of its own."""
    backend = {"PULUMI_BACKEND_URL": f"file://{ensure(folder.parent / 'state')}"}
    done = subprocess.run(
        namespace.enter(["pulumi", *words, "--non-interactive"], folder=folder),
        env=own_backend.environment(backend, cloud=True),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_answers_preview(tmp_path: Path) -> None:
    if not namespace.running():
        pytest.skip("the cloud is down")
    template, folder = tmp_path / "template", ensure(tmp_path / "shop")
    subprocess.run(["git", "clone", "--quiet", PROJECT, template], check=True)
    # The lab's Python has the packages already.
    pulumi(folder, "new", str(template), "--generate-only", "--yes", "--name", "shop")
    pulumi(folder, "stack", "init", STACK)
    answers = {
        "openstack:cloud": layout.CLOUD,
        "image": image.ensure(),
        "flavor": "lab.2c3g",
        "externalNetwork": layout.EXTERNAL_NETWORK,
        "allowedCidrs": layout.EXTERNAL_CIDR,
        # Other clusters may be there.
        "hostCidr": "10.9.0.0/22",
    }
    for key, answer in answers.items():
        pulumi(folder, "config", "set", key, answer, "--stack", STACK)
    # As any site without internet access.
    pulumi(
        folder, "config", "set", "--path", "addons.chartDirectory", str(CHARTS), "--stack", STACK
    )
    said = pulumi(folder, "preview", "--stack", STACK)
    assert f"{STACK}-control-plane-2 create" in said
