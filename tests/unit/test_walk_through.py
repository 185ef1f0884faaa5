"""The walk-through of docs/fleet.md is what the lab runs."""

from __future__ import annotations

import re
from pathlib import Path

from lab import program_image
from lab.image.versions import KUBERNETES_RELEASES
from tests.lab.walk import STEPS

TEST = Path(__file__).resolve().parents[1] / "lab/test_operator.py"
PAGE = Path(__file__).resolve().parents[2] / "docs/fleet.md"


def test_the_lab_runs_every_step() -> None:
    assert len(STEPS) >= 10
    text = TEST.read_text()
    assert [step for step in STEPS if f'walk.step("{step}"' not in text] == []


def test_it_names_the_image_and_the_version_that_the_lab_has() -> None:
    named = re.findall(r"\S+/openstack-kubernetes:\S+", PAGE.read_text())
    assert set(named) == {program_image.NAME}
    assert f" {KUBERNETES_RELEASES[0]} " in STEPS["Upgrade Kubernetes"]
