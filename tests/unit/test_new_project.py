"""The answers to `pulumi new` make a configuration, and the project may have another name."""

from collections.abc import Iterator
from pathlib import Path

import pulumi
import pytest
import yaml

from config.errors import ConfigError
from config.load import PROJECT, cluster_of_stack, load
from tests.unit.test_config import NoResources

PROJECT_FILE = yaml.safe_load((Path(__file__).resolve().parents[2] / "Pulumi.yaml").read_text())
ANSWERS = {
    "openstack:cloud": "mycloud",
    "image": "debian-13",
    "flavor": "m1.medium",
    "externalNetwork": "public",
    "allowedCidrs": "203.0.113.0/24, 198.51.100.7",
}


@pytest.fixture
def project() -> Iterator[str]:
    """A project that is not called as this one."""
    pulumi.runtime.set_mocks(NoResources(), project="shop", stack="demo")
    yield "shop"
    pulumi.runtime.set_all_config({}, [])


def test_the_answers_are_a_configuration(project: str) -> None:
    assert PROJECT_FILE["template"]["config"].keys() == ANSWERS.keys()
    answers = {key if ":" in key else f"{project}:{key}": answer for key, answer in ANSWERS.items()}
    pulumi.runtime.set_all_config(answers, [])
    cluster = cluster_of_stack()
    assert (cluster.cluster_name, cluster.image) == ("demo", "debian-13")
    assert [str(cidr) for cidr in cluster.allowed_cidrs] == ["203.0.113.0/24", "198.51.100.7/32"]


def test_the_engine_lets_a_text_through_where_a_list_may_be_meant() -> None:
    assert "type" not in PROJECT_FILE["config"]["allowedCidrs"]


def test_one_bad_network_among_several_is_named() -> None:
    answers = {key: answer for key, answer in ANSWERS.items() if ":" not in key}
    with pytest.raises(ConfigError, match=r"allowedCidrs\[1\] = elsewhere: must be an IPv4"):
        load({**answers, "allowedCidrs": "203.0.113.0/24,elsewhere"}, "demo")


def test_keys_copied_from_the_examples_are_named(project: str) -> None:
    pulumi.runtime.set_all_config({f"{PROJECT}:image": "debian-13", "openstack:cloud": "a"}, [])
    problem = f"{PROJECT}:image: the project is named {project}: write {project}:image"
    with pytest.raises(ConfigError, match=problem):
        cluster_of_stack()
