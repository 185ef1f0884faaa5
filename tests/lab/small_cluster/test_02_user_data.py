"""The user_data of servers: no lasting secret, and an SSH host key of its own for each server."""

from __future__ import annotations

import json

import yaml

from lab.cluster import Cluster


def user_data(cluster: Cluster) -> dict[str, str]:
    """Name of each server to its user_data, which Nova shows to administrators only."""
    outputs = cluster.stack.outputs()
    names = [each["name"] for each in (*outputs["gateways"], *outputs["nodes"])]
    read = "sudo cat /var/lib/cloud/instance/user-data.txt"
    return {name: cluster.fleet("ssh", cluster.name, name, read) for name in names}


def test_no_server_holds_a_lasting_secret_in_its_user_data(cluster: Cluster) -> None:
    keys = [
        json.loads(resource["outputs"][form]["plaintext"])
        for resource in cluster.stack.resources(secrets=True)
        if resource["type"].endswith(":PrivateKey")
        for form in ("privateKeyPem", "privateKeyOpenssh")
        if form in resource["outputs"]
    ]
    secret = {line for key in keys for line in key.splitlines()[1:-1]}
    found = user_data(cluster)
    assert len(found) == 3
    for name, text in found.items():
        # Its own one-time key, which begins like every other one.
        own = {line.strip() for line in text.splitlines()}
        beginnings = {line for line in own if line.startswith("b3BlbnNzaC1rZXktdjE")}
        assert len(beginnings) == 1, name
        assert not (secret - beginnings) & own, name


def boot_host_keys(cluster: Cluster) -> dict[str, str]:
    """Name of each server to the SSH host key that it booted with."""
    return {
        name: yaml.safe_load(text)["ssh_keys"]["ed25519_public"]
        for name, text in user_data(cluster).items()
    }


def test_every_server_boots_with_an_ssh_host_key_of_its_own_and_each_replacement_too(
    cluster: Cluster,
) -> None:
    keys = [boot_host_keys(cluster)]
    for _ in range(2):
        changes = cluster.up("--replace", "**:Instance::small-worker-0")
        assert changes["replace"]
        keys.append(boot_host_keys(cluster))
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
    assert len(set(keys[0].values())) == len(keys[0]) == 3
    assert len({each["small-worker-0"] for each in keys}) == 3
    assert all(each["small-gateway-0"] == keys[0]["small-gateway-0"] for each in keys)
    assert cluster.up() == {}
