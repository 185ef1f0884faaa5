"""The generated files are current, and what they suggest works."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import versions
from config.load import PROJECT, load
from config.models.cluster import Cluster
from docs.generate import FILES, ROOT
from docs.schema import keys
from tests.unit.clusters import LEAST, cluster


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_is_current(name: str) -> None:
    assert (ROOT / name).read_text() == FILES[name](), "run `make generate`"


def test_the_defaults_of_the_project_are_those_of_the_models() -> None:
    declared = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    own = {key: entry for key, entry in declared.items() if ":" not in key}
    defaults = {key: entry["default"] for key, entry in own.items()}
    assert load({**defaults, **LEAST}, "demo") == cluster()


def test_the_provider_repeats_what_the_cloud_has_no_time_for() -> None:
    declared = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    # The engine takes no default of a provider's key.
    assert declared["openstack:maxRetries"] == {"value": 10}


def stack_file(uncomment: str | None = None) -> dict[str, Any]:
    """The values in the example with every key, with one commented key taken in, or none."""
    lines: list[str] = []
    inside = False
    for line in Path(ROOT / "examples/Pulumi.every-key.yaml").read_text().splitlines():
        if line.startswith((f"  #{PROJECT}:", f"  {PROJECT}:")):
            inside = line.split(":")[1] == uncomment
        if inside and line.startswith("  #") and not line.startswith("  # "):
            lines.append("  " + line[3:])
        elif not line.startswith("  #"):
            lines.append(line)
    values = yaml.safe_load("\n".join(lines))["config"]
    return {
        key.removeprefix(f"{PROJECT}:"): value
        for key, value in values.items()
        if key.startswith(f"{PROJECT}:")
    }


@pytest.mark.parametrize("key", [field.alias for field in Cluster.model_fields.values()])
def test_each_key_of_the_example_can_be_uncommented(key: str) -> None:
    raw = stack_file(key)
    assert key in raw
    load(raw, "demo")


def test_the_accepted_versions_of_kubernetes_are_documented() -> None:
    [key] = [key for key in keys() if key.path == "kubernetesVersion"]
    assert re.findall(r"\b1\.[0-9]+\b", key.description) == list(versions.KUBERNETES_MINORS)


def test_every_key_is_described() -> None:
    assert [key.path for key in keys() if not key.description] == []
