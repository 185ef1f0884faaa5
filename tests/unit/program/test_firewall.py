"""The rules of the security groups."""

from __future__ import annotations

import pytest

from tests.unit.engine import GATEWAYS, Run, command, run
from tests.unit.program.settings import METAL


def test_only_allowed_networks_reach_the_gateways(fresh: Run) -> None:
    rules = fresh.all("secGroupRule:SecGroupRule").values()
    from_outside = {r.inputs["remoteIpPrefix"] for r in rules if "remoteIpPrefix" in r.inputs}
    assert from_outside == {"203.0.113.0/24"}


def test_another_description_does_not_replace_a_rule(fresh: Run) -> None:
    for rule in fresh.all("secGroupRule:SecGroupRule").values():
        assert rule.ignore_changes == ["description"]


@pytest.mark.parametrize(
    ("more", "subnet"),
    [
        ({}, "10.8.0.0/22"),
        ({"existingNetwork": {"network": "tenant", "subnet": "servers"}}, "10.0.0.0/8"),
    ],
)
def test_load_balancers_reach_workers_by_the_clusters_own_rules(
    more: dict[str, object], subnet: str
) -> None:
    addons = {"cni": {"kind": "none"}, "cinderCsi": {"enabled": False}}
    chosen = {**addons, "metricsServer": {"enabled": False}, "loadBalancer": "octavia"}
    balanced = run({"addons": chosen, **more})
    opened = {
        (rule.inputs["securityGroupId"], rule.inputs["protocol"])
        for rule in balanced.all("secGroupRule:SecGroupRule").values()
        if rule.inputs.get("remoteIpPrefix") == subnet
        and (rule.inputs["portRangeMin"], rule.inputs["portRangeMax"]) == (30000, 32767)
    }
    assert opened == {("demo-worker-id", "tcp"), ("demo-worker-id", "udp")}


def test_only_gateways_may_carry_a_second_address(fresh: Run) -> None:
    ports = fresh.all("port:Port")
    carrying = [name for name, port in ports.items() if port.inputs.get("allowedAddressPairs")]
    assert sorted(carrying) == GATEWAYS


def test_an_existing_machine_reaches_what_a_node_reaches(fresh: Run) -> None:
    def opened(to: Run, key: str, source: str) -> list[tuple[str, ...]]:
        rules = to.all("secGroupRule:SecGroupRule").values()
        fields = ("securityGroupId", "protocol", "portRangeMin")
        return sorted(
            tuple(str(rule.inputs.get(field)) for field in fields)
            for rule in rules
            if rule.inputs.get(key) == source
        )

    joined = run({"workerPools": [METAL]})
    from_nodes = opened(fresh, "remoteGroupId", "demo-node-id")
    assert len(from_nodes) > 1
    assert opened(joined, "remoteIpPrefix", "10.8.1.5/32") == from_nodes


def test_an_existing_machine_joins_when_it_is_let_in_and_is_shut_out_when_it_has_left() -> None:
    joined = run({"workerPools": [METAL]})
    membership, join = (command(joined, f"metal-a-{step}") for step in ("membership", "join"))
    rules = joined.all("secGroupRule:SecGroupRule").values()
    own = [rule for rule in rules if rule.inputs.get("remoteIpPrefix") == "10.8.1.5/32"]
    assert own
    for rule in rules:
        assert joined.waits_for(membership, rule) or rule not in own
    assert joined.waits_for(join, membership)
    users = [rule for rule in rules if rule.inputs.get("remoteIpPrefix") == "203.0.113.0/24"]
    assert not any(joined.waits_for(membership, rule) for rule in users)
