"""The security groups' rules as data."""

from collections import Counter

from config.security_groups import rules


def test_no_rule_is_there_twice_also_when_the_user_names_a_network_twice() -> None:
    networks = ["203.0.113.0/24", "198.51.100.0/24", "203.0.113.0/24"]
    made = rules(
        allowed=networks,
        ingress=networks,
        gateways=2,
        ingress_ports=(30080, 30443),
        machines=["10.9.0.60"],
        monitored=True,
        octavia=True,
    )
    assert [key for key, count in Counter(rule.key for rule in made).items() if count > 1] == []
