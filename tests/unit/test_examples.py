"""The example stacks can be used as they are."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import versions
from cloud.facts import Facts
from cloud.quotas import needs
from config import rules
from config.load import PROJECT, load

ROOT = Path(__file__).parent.parent.parent
ADMIN = ROOT / "Pulumi.admin.yaml"
EXAMPLES = [ADMIN, *sorted((ROOT / "examples").glob("Pulumi.*.yaml"))]


def values(path: Path) -> dict[str, Any]:
    """The keys that an example sets; keys of other namespaces are the provider's."""
    config = yaml.safe_load(path.read_text())["config"]
    prefix = f"{PROJECT}:"
    assert {key for key in config if not key.startswith(prefix)} == {"openstack:cloud"}
    return {key.removeprefix(prefix): v for key, v in config.items() if key.startswith(prefix)}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_loads(path: Path) -> None:
    stack = path.name.split(".")[1]
    assert load(values(path), stack).cluster_name == stack


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_gives_no_warning(path: Path) -> None:
    assert list(rules.warnings(load(values(path), "demo"))) == []


@pytest.mark.parametrize("name", ["small", "ha"])
def test_the_quotas_that_an_example_needs_are_documented(name: str) -> None:
    file = f"Pulumi.{name}.yaml"
    wanted = needs(load(values(ROOT / "examples" / file), name), Facts())
    columns = ("instances", "ports", "volumes", "gigabytes", "serverGroups", "securityGroups")
    [row] = [
        line
        for line in (ROOT / "docs/requirements.md").read_text().splitlines()
        if line.startswith(f"| [{file}]")
    ]
    cells = [cell.strip().removesuffix(" GiB") for cell in row.split("|")[2:-1]]
    assert cells == [str(wanted[each]) for each in (*columns, "securityGroupRules")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_sets_the_version_that_it_would_have_without(path: Path) -> None:
    only_comments = path.name == "Pulumi.every-key.yaml"
    expected = None if only_comments else versions.KUBERNETES_VERSION
    assert values(path).get("kubernetesVersion") == expected


def test_each_example_is_what_its_name_says() -> None:
    small, ha, private = (
        load(values(ROOT / "examples" / f"Pulumi.{name}.yaml"), name)
        for name in ("small", "ha", "private")
    )
    assert (small.gateway_count, small.control_plane_count, small.worker_count) == (1, 1, 1)
    assert (ha.gateway_count, ha.control_plane_count) == (2, 3)
    assert len(set(ha.control_plane.availability_zones)) == ha.control_plane_count
    assert private.existing_network is not None
    assert private.addons.chart_repository is not None
    admin = load(values(ADMIN), "admin").addons
    assert admin.object_store.enabled
    assert admin.operator.enabled
    assert admin.monitoring.enabled
    assert admin.monitoring.fleet
