"""The security groups' rules as data."""

from collections import Counter

import pytest

from config.security_groups import SUBNET, Rule, rules
from tests.unit.clusters import cluster

MACHINE = {"name": "metal-0", "address": "10.9.0.60", "hostKey": "ssh-ed25519 AAAA"}


def made(**more: object) -> list[Rule]:
    return rules(cluster(**more))


def lets_in(rule: Rule, protocol: str, port: int) -> bool:
    first, last = rule.first, rule.last
    return rule.protocol == protocol and (first is None or last is None or first <= port <= last)


def test_no_rule_exists_twice_even_if_the_user_names_a_network_twice() -> None:
    networks = ["203.0.113.0/24", "198.51.100.0/24", "203.0.113.0/24"]
    keys = Counter(
        rule.key
        for rule in made(
            allowedCidrs=networks,
            ingressCidrs=networks,
            workerPools=[{"name": "metal", "machines": [MACHINE]}],
            addons={"monitoring": {"enabled": True}, "loadBalancer": "octavia"},
        )
    )
    assert [key for key, count in keys.items() if count > 1] == []


def test_every_node_reaches_the_node_ports_of_every_other() -> None:
    every = made(workerPools=[{"name": "metal", "machines": [MACHINE]}])
    for protocol in ("tcp", "udp"):
        for port in (30000, 32767):
            sources = {
                rule.source
                for rule in every
                if rule.group == "node" and lets_in(rule, protocol, port)
            }
            assert sources == {"node", "10.9.0.60/32"}


@pytest.mark.parametrize(
    ("given", "first", "last"),
    [("20000-25000", 20000, 25000), ("20000+500", 20000, 20500), ("31000", 31000, 31000)],
)
def test_the_node_ports_are_those_that_the_api_server_gives_out(
    given: str, first: int, last: int
) -> None:
    arguments = {"extraArgs": {"service-node-port-range": given}}
    every = made(apiServer=arguments, addons={"loadBalancer": "octavia"})
    for protocol in ("tcp", "udp"):
        for group, source in (("node", "node"), ("worker", SUBNET)):
            # Those of the cluster itself are each a rule.
            known = {
                (rule.first, rule.last)
                for rule in every
                if (rule.group, rule.source, rule.protocol) == (group, source, protocol)
                if lets_in(rule, protocol, first) or lets_in(rule, protocol, 30000)
            }
            assert known == {(first, last)}


def test_no_one_outside_of_the_cluster_reaches_a_node() -> None:
    every = made(ingressCidrs=["0.0.0.0/0"])
    from_outside = {rule.group for rule in every if rule.source in ("203.0.113.0/24", "0.0.0.0/0")}
    assert from_outside == {"gateway"}


def test_each_gateway_has_a_port_for_ssh() -> None:
    (ssh,) = (rule for rule in made(gatewayCount=3) if rule.first == 2200)
    assert (ssh.group, ssh.source, ssh.last) == ("gateway", "203.0.113.0/24", 2202)


def test_many_machines_need_no_more_rules_than_one() -> None:
    def pool(count: int) -> list[dict[str, object]]:
        machines = [
            {**MACHINE, "name": f"metal-{number}", "address": f"10.9.1.{number}"}
            for number in range(count)
        ]
        return [{"name": "metal", "machines": machines}]

    many = made(workerPools=pool(128))
    assert len(many) == len(made(workerPools=pool(1)))
    assert any(rule.source == "10.9.1.0/25" and lets_in(rule, "tcp", 10250) for rule in many)
