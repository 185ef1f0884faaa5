"""Whether volumes are made in the zones of their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pulumi.runtime import MockCallArgs

from tests.unit.engine import MINIMAL, Cloud, run

WITH_CINDER = {name: each for name, each in MINIMAL["addons"].items() if name != "cinderCsi"}
CHOSEN = {"availabilityZones": ["a"]}
EVERY_NODE = {"controlPlane": CHOSEN, "worker": CHOSEN}
NODES = ["demo-gateway-0", "demo-control-plane-0", "demo-worker-0"]


def decided(overrides: Mapping[str, Any] | None = None, **update: Any) -> str:
    """The output that the next update reads."""
    keys = {"addons": WITH_CINDER, **(overrides or {})}
    found: str = run(keys, **update).outputs["immutableSettings"]["volumeZones"]
    return found


@pytest.fixture
def nova(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The zones for servers; those for volumes are `a` and `b`."""
    zones: list[str] = []
    answer = Cloud.call

    def call(self: Cloud, args: MockCallArgs) -> tuple[dict[str, Any], Sequence[tuple[str, str]]]:
        found, failures = answer(self, args)
        if "compute" in args.token and args.args.get("state") == "available":
            found["names"] = zones
        return found, failures

    monkeypatch.setattr(Cloud, "call", call)
    return zones


@pytest.mark.parametrize(
    ("keys", "of_servers", "zoned"),
    [
        ({}, ["a"], "true"),
        ({}, ["a", "of servers only"], "false"),
        (EVERY_NODE, ["a", "of servers only"], "true"),
        ({"worker": CHOSEN}, ["a", "of servers only"], "false"),
        (
            {"worker": {"availabilityZones": ["of servers only"]}, "controlPlane": CHOSEN},
            [],
            "false",
        ),
        ({"controlPlane": CHOSEN, "workerCount": 0}, ["of servers only"], "true"),
    ],
)
def test_they_are_if_cinder_has_every_zone_that_nodes_may_be_in(
    nova: list[str], keys: Mapping[str, Any], of_servers: list[str], zoned: str
) -> None:
    nova += of_servers
    assert decided(overrides=keys) == zoned


def test_a_cloud_without_cinder_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Cloud.call

    def call(self: Cloud, args: MockCallArgs) -> tuple[dict[str, Any], Sequence[tuple[str, str]]]:
        assert "blockstorage" not in args.token
        return answer(self, args)

    monkeypatch.setattr(Cloud, "call", call)
    made = run({"addons": {"cinderCsi": {"enabled": False}}})
    assert "volumeZones" not in made.outputs["immutableSettings"]


@pytest.mark.parametrize("before", ["true", "false"])
@pytest.mark.parametrize("of_servers", [["a"], ["a", "new"]])
def test_it_stays_as_it_was_whatever_zones_the_cloud_gets(
    nova: list[str], before: str, of_servers: list[str]
) -> None:
    nova += of_servers
    assert decided(existing=NODES, made_with={"volumeZones": before}) == before
