"""Charts through the real engine and provider, rendered into a folder: no cluster is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lab.image.charts import CHARTS
from tests.lab.engine import Program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The snapshot controller, whose class for Cinder is an object of a CRD, protected."""
    folder = tmp_path_factory.mktemp("charts")
    made = Program("charts", folder, {})
    made.configure(charts=str(CHARTS), folder=str(folder / "rendered"), deletionProtection="true")
    yield made
    made.configure(deletionProtection="false")
    made.up()
    made.destroy()


def resources(program: Program) -> set[str]:
    """Type and name of what is in the state."""
    exported = json.loads(program.pulumi("stack", "export").stdout)
    return {each["urn"].partition("::")[2] for each in exported["deployment"]["resources"]}


def test_an_object_of_a_crd_is_installed(program: Program) -> None:
    program.up()
    assert any("VolumeSnapshotClass" in each for each in resources(program))
    assert program.up() == {}


def test_a_refused_destroy_forgets_no_object_of_a_chart(program: Program) -> None:
    before = resources(program)
    refused = program.pulumi("destroy", "--yes", "--skip-preview", ok=False)
    assert "cannot be deleted" in refused.stdout + refused.stderr
    assert resources(program) == before
