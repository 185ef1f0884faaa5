"""Addresses never depend on the number of machines."""

from ipaddress import IPv4Network

import pytest

from config.addresses import addresses


@pytest.mark.parametrize("prefix", [16, 22, 24, 26])
def test_every_address_is_different(prefix: int) -> None:
    network = IPv4Network(f"10.8.0.0/{prefix}")
    got = addresses(network)
    fixed = [got.router, got.vip, *got.gateways, *got.control_planes]
    assert len(set(fixed)) == len(fixed) == 11
    assert all(address in network for address in (*fixed, got.pool_start, got.pool_end))
    assert max(fixed) < got.pool_start < got.pool_end < network.broadcast_address


def test_offsets_are_the_same_in_a_network_of_any_size() -> None:
    small, large = addresses(IPv4Network("10.8.0.0/26")), addresses(IPv4Network("10.8.0.0/16"))
    assert small.vip == large.vip
    assert small.gateways == large.gateways
    assert small.control_planes == large.control_planes
    assert small.pool_start == large.pool_start


def test_the_room_for_workers_excludes_dhcp_ports() -> None:
    assert addresses(IPv4Network("10.8.0.0/26")).worker_capacity == 31 - 3
    assert addresses(IPv4Network("10.8.0.0/22")).worker_capacity == 1024 - 32 - 1 - 3


def test_a_network_without_room_for_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="/26 or larger"):
        addresses(IPv4Network("10.8.0.0/27"))
