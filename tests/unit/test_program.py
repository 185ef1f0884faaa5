"""The program's requests to the engine: machines come, change and go as promised."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import re
import tarfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from pulumi.output import UNKNOWN
from pulumi.runtime.mocks import MockResourceArgs

from components import previous_outputs
from components.ssh import USERDATA
from config.errors import ConfigError, Fault
from tests.unit.engine import (
    CLUSTER_ID,
    COMMAND,
    GATEWAYS,
    MINIMAL,
    NODES,
    SERVER,
    Cloud,
    Recorded,
    Run,
    command,
    file_of,
    files,
    identity,
    node_env,
    run,
    server,
)

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def fresh() -> Run:
    """A first update."""
    return run()


@pytest.fixture(scope="module")
def updated() -> Run:
    """An update of an existing cluster, with one more worker."""
    return run({"workerCount": 3}, existing=NODES)


def test_a_users_own_ssh_key_ends_with_the_newline_that_ssh_needs() -> None:
    own = run({"sshPrivateKey": "-----BEGIN\nkey\n-----END"}, secret=["sshPrivateKey"])
    key = file_of(command(own, "demo-worker-0-membership"), "ssh_key")
    assert key == "-----BEGIN\nkey\n-----END\n"


@pytest.mark.parametrize("preview", [True, False])
def test_the_default_cluster_is_highly_available(preview: bool) -> None:
    servers = run(preview=preview).all(SERVER)
    assert sorted(servers) == sorted([*GATEWAYS, *NODES])


def test_a_living_cluster_keeps_its_name() -> None:
    # As after `pulumi stack rename`: the name is the stack's if none is set.
    with pytest.raises(ConfigError, match="clusterName = prod: the cluster of this stack is demo;"):
        run(stack="prod", existing=[*GATEWAYS, *NODES, "demo-a-control-plane-0"])
    assert run({"clusterName": "demo"}, stack="prod", existing=NODES).resources


@pytest.mark.parametrize("preview", [True, False])
def test_a_living_cluster_keeps_what_its_machines_cannot_change(preview: bool) -> None:
    etcd_volume = {"controlPlane": {"etcdVolume": {"size": 10}}}
    made_with = run(etcd_volume).outputs["immutableSettings"]

    def update(more: Mapping[str, object], made_with: Mapping[str, str] | None) -> Run:
        return run(more, existing=NODES, made_with=made_with, preview=preview)

    with pytest.raises(
        ConfigError, match=r"hostCidr = 10\.9\.0\.0/22: the cluster was made with 10\.8"
    ):
        update({**etcd_volume, "hostCidr": "10.9.0.0/22"}, made_with)
    with pytest.raises(ConfigError, match=r"controlPlane\.etcdVolume: etcd's data is on volumes"):
        update({}, made_with)
    assert update(etcd_volume, made_with).all(SERVER)
    # The last release has no such output.
    assert update({"hostCidr": "10.9.0.0/22"}, None).all(SERVER)


def test_the_cloud_checks_name_their_faults_before_the_outputs_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = [Fault("podCidr", "10.128.0.0/16", "one"), Fault("etcdVolume.size", 3, "two")]

    def check(_: object) -> None:
        raise ConfigError(faults)

    monkeypatch.setattr("cloud.check", check)
    changed = {"podCidr": "10.128.0.0/16", "cloudChecks": True}
    with pytest.raises(ConfigError, match=r"etcdVolume\.size = 3: two"):
        run(changed, existing=NODES, made_with={"podCidr": "10.244.0.0/16"}, preview=True)


def test_a_key_that_the_machines_do_not_know_is_refused_at_preview() -> None:
    own = {"sshPrivateKey": "new key"}
    with pytest.raises(
        ConfigError, match="sshPrivateKey: this is not the text of the key"
    ) as error:
        run(own, secret=own, existing=NODES, ssh_key="old key\n", preview=True)
    assert "see 'Your own SSH key' in docs" in str(error.value)
    assert "## Your own SSH key" in (ROOT / "docs/operations.md").read_text()
    assert run(own, secret=own, existing=NODES, ssh_key="new key\n", preview=True).resources
    assert run(own, secret=own, existing=NODES, ssh_key="old key\n").resources
    assert run(own, secret=own, preview=True).resources
    # One that left the configuration: the new one is not made yet.
    with pytest.raises(ConfigError, match="sshPrivateKey"):
        previous_outputs._check_ssh_key("sum of the old one", UNKNOWN)


def test_new_machines_come_up_in_parallel(fresh: Run) -> None:
    servers = fresh.all(SERVER).values()
    assert not any(fresh.waits_for(a, b) for a in servers for b in servers)


def test_etcd_members_join_one_at_a_time(fresh: Run) -> None:
    for earlier, later in (
        ("demo-control-plane-0", "demo-control-plane-1"),
        ("demo-control-plane-1", "demo-control-plane-2"),
    ):
        assert fresh.waits_for(
            command(fresh, f"{later}-configure"), command(fresh, f"{earlier}-configure")
        )


@pytest.mark.parametrize(
    "row",
    [
        [f"{COMMAND}/demo-control-plane-{i}-membership" for i in range(3)],
        [f"local:Command/{name}-handover" for name in GATEWAYS],
    ],
)
def test_machines_of_the_first_update_leave_one_at_a_time(fresh: Run, row: list[str]) -> None:
    each = [fresh.one(*step.split("/")) for step in row]
    assert all(fresh.waits_for(later, earlier) for earlier, later in itertools.pairwise(each))


def test_workers_join_in_parallel(fresh: Run) -> None:
    assert not fresh.waits_for(
        command(fresh, "demo-worker-1-membership"), command(fresh, "demo-worker-0-membership")
    )


def test_workers_join_a_new_cluster_alongside_the_other_control_planes(fresh: Run) -> None:
    join = command(fresh, "demo-worker-0-membership")
    assert fresh.waits_for(join, command(fresh, "demo-control-plane-0-membership"))
    assert not fresh.waits_for(join, command(fresh, "demo-control-plane-1-configure"))


def test_a_worker_joins_an_existing_cluster_after_every_control_plane(updated: Run) -> None:
    join = command(updated, "demo-worker-2-membership")
    assert updated.waits_for(join, command(updated, "demo-control-plane-2-membership"))


def test_an_existing_machine_changes_only_after_the_one_before_it_is_ready(updated: Run) -> None:
    for earlier, later in itertools.pairwise(NODES):
        assert updated.waits_for(server(updated, later), command(updated, f"{earlier}-membership"))


def test_existing_workers_change_in_turn_and_after_control_planes(
    updated: Run,
) -> None:
    change = command(updated, "demo-worker-1-configure")
    assert updated.waits_for(change, command(updated, "demo-worker-0-membership"))
    assert updated.waits_for(change, command(updated, "demo-control-plane-2-membership"))


def test_new_kubelet_settings_reach_workers(updated: Run) -> None:
    changed = run({"workerCount": 3, "kubelet": {"extraConfig": {"maxPods": 200}}}, existing=NODES)
    name = "demo-worker-0-configure"
    assert command(changed, name).inputs["stdin"] != command(updated, name).inputs["stdin"]


def test_workers_of_the_last_update_leave_as_many_at_a_time_as_the_pool_allows() -> None:
    pool = run({"workerCount": 4, "worker": {"maxUnavailable": 2}})

    def turn(index: int) -> str:
        line = command(pool, f"demo-worker-{index}-membership").inputs["delete"]
        [name] = re.findall(r"/run/lock/openstack-kubernetes-(drain-\S+);", line)
        return str(name)

    assert turn(0) == turn(2) != turn(1) == turn(3)
    # They still join in parallel.
    assert "drain-" not in command(pool, "demo-worker-0-membership").inputs["create"]


def test_a_node_has_the_time_of_the_configuration() -> None:
    longer = run({"timeouts": {"drain": "3h", "ready": "20m"}})
    for name in NODES:
        membership = command(longer, f"{name}-membership")
        settings = node_env(membership)
        assert (settings["DRAIN_TIMEOUT"], settings["READY_TIMEOUT"]) == ("10800", "1200")
        [limit] = re.findall(r"timeout --kill-after=30 (\d+) ", membership.inputs["delete"])
        assert int(limit) > 10800 + 1200


def test_a_new_worker_waits_for_no_existing_one(updated: Run) -> None:
    new = server(updated, "demo-worker-2")
    assert not any(updated.waits_for(new, server(updated, name)) for name in NODES)


def test_as_many_workers_change_at_once_as_the_pool_allows() -> None:
    names = [*NODES, "demo-worker-2", "demo-worker-3"]
    pool = run({"workerCount": 4, "worker": {"maxUnavailable": 2}}, existing=names)

    def waits(later: int, earlier: int) -> bool:
        return pool.waits_for(
            server(pool, f"demo-worker-{later}"), command(pool, f"demo-worker-{earlier}-membership")
        )

    assert not waits(1, 0)
    assert waits(2, 0)
    assert not waits(2, 1)
    assert waits(3, 1)


def test_an_image_or_flavor_change_is_never_an_in_place_rebuild(fresh: Run) -> None:
    for each in fresh.all(SERVER).values():
        assert each.delete_before_replace
        assert {"imageName", "imageId", "flavorName", "flavorId"} <= set(each.replace_on_changes)


def test_another_policy_does_not_delete_all_servers_of_the_group_at_once(fresh: Run) -> None:
    groups = fresh.all("compute/serverGroup:ServerGroup")
    assert set(groups) == {"demo-gateway", "demo-control-plane", "demo-worker"}
    assert all(group.create_before_delete for group in groups.values())


def test_another_zone_does_not_delete_the_volume_of_etcd() -> None:
    made = run({"controlPlane": {"etcdVolume": {"size": 10}, "availabilityZones": ["a", "b"]}})
    volume = made.one("blockstorage/volume:Volume", "demo-control-plane-1-etcd")
    assert volume.inputs["availabilityZone"] == "b"
    assert volume.ignore_changes == ["availabilityZone", "size"]


NEVER_DELETED = {
    "blockstorage/volume:Volume::demo-control-plane-0-etcd",
    *(
        f"index/{kind}::demo-{name}"
        for kind in ("privateKey:PrivateKey", "selfSignedCert:SelfSignedCert")
        for name in ("cluster-ca", "etcd-ca", "front-proxy-ca", "backup")
    ),
    "index/privateKey:PrivateKey::demo-service-account",
    "index/privateKey:PrivateKey::demo-ssh",
    "index/randomBytes:RandomBytes::demo-encryption",
    "index:Stash::demo-deletion-protection",
}


def protected(of: Run) -> set[str]:
    return {f"{r.type.partition(':')[2]}::{r.name}" for r in of.resources.values() if r.protect}


@pytest.mark.parametrize(
    ("more", "anchor"),
    [
        ({}, "networking/network:Network::demo"),
        (
            {"existingNetwork": {"network": "tenant", "subnet": "servers"}},
            "networking/secGroup:SecGroup::demo-node",
        ),
    ],
)
def test_nothing_that_cannot_be_made_again_is_deleted(more: dict[str, object], anchor: str) -> None:
    keys = {"controlPlaneCount": 1, "controlPlane": {"etcdVolume": {"size": 10}}, **more}
    assert protected(run(keys)) == {*NEVER_DELETED, anchor}
    assert protected(run({**keys, "deletionProtection": False})) == set()


def test_a_destroy_stops_before_its_first_deletion() -> None:
    # What depends on something is deleted before it, and a failure stops what comes later.
    made = run({"keepVolumes": True})
    guard = made.one("index:Stash", "demo-deletion-protection")
    free = {
        each.name
        for each in made.resources.values()
        if ":index:Stash" not in each.type
        and each.type.startswith(("openstack:", "command:", "kubernetes:", "tls:", "random:"))
        and not made.waits_for(guard, each)
    }
    assert free == set()


def test_volumes_are_marked_while_the_api_answers() -> None:
    made = run({"keepVolumes": True})
    keeper = made.one("local:Command", "demo-keep-volumes")
    assert keeper.inputs["delete"].endswith(f"-m commands.keep_volumes {CLUSTER_ID}")
    assert "https://198.51.100.7:6443" in keeper.inputs["environment"]["KUBECONFIG_TEXT"]
    assert ("demo-keep-volumes", "environment") in made.secret_inputs
    for name in [*GATEWAYS, *(name for name in NODES if "control-plane" in name)]:
        assert made.waits_for(keeper, server(made, name)), name
    cleanup = made.one("local:Command", "demo-cloud-cleanup").inputs["delete"]
    assert cleanup.endswith(f"-m commands.cloud_cleanup {CLUSTER_ID} --keep-volumes")
    assert "demo-keep-volumes" not in run().all("local:Command")


def test_a_membership_drains_before_its_server_goes_but_not_on_destroy(fresh: Run) -> None:
    network = fresh.one("network:Network", "demo")
    for name in NODES:
        membership = command(fresh, f"{name}-membership")
        assert "cluster/drain.sh drain" in membership.inputs["delete"]
        assert membership.inputs["triggers"] == [f"{name}-id"]
        assert membership.delete_before_replace
        assert membership.deleted_with == network.urn
        assert fresh.waits_for(membership, server(fresh, name))


def test_a_dead_server_is_stopped_between_its_drain_and_its_end_but_not_on_destroy(
    fresh: Run,
) -> None:
    for name in NODES:
        fence = fresh.one("local:Command", f"{name}-fence")
        assert fence.inputs["delete"].endswith("commands.fence")
        assert fence.inputs["triggers"] == [f"{name}-id"]
        variables = fence.inputs["environment"]
        assert (variables["NODE"], variables["PROVIDER_ID"]) == (name, f"openstack:///{name}-id")
        assert fresh.outputs["apiEndpoint"] in variables["KUBECONFIG_TEXT"]
        assert fence.delete_before_replace
        assert fence.deleted_with == fresh.one("network:Network", "demo").urn
        # What depends on something is deleted before it.
        assert fresh.waits_for(command(fresh, f"{name}-membership"), fence)
        # A machine in its place must not join earlier: the fence deletes a Node of that name.
        assert fresh.waits_for(command(fresh, f"{name}-configure"), fence)
        assert fresh.waits_for(fence, server(fresh, name))
        for gateway in GATEWAYS:
            handover = fresh.one("local:Command", f"{gateway}-handover")
            assert fresh.waits_for(fence, handover)


def test_a_gateway_hands_over_before_its_server_goes_but_not_on_destroy(fresh: Run) -> None:
    for name in GATEWAYS:
        handover = fresh.one("local:Command", f"{name}-handover")
        assert handover.inputs["delete"].endswith("commands.gateway_handover")
        assert handover.inputs["triggers"] == [f"{name}-id"]
        assert handover.inputs["environment"]["SERVER_ID"] == f"{name}-id"
        assert handover.inputs["environment"]["OTHERS"] == "1"
        assert handover.delete_before_replace
        assert handover.deleted_with == fresh.one("network:Network", "demo").urn
        assert fresh.waits_for(handover, command(fresh, f"{name}-configure"))


def test_a_gateway_stays_while_a_node_is_drained_through_it(fresh: Run) -> None:
    # What depends on something is deleted before it.
    for gateway, node in itertools.product(GATEWAYS, NODES):
        handover = fresh.one("local:Command", f"{gateway}-handover")
        assert fresh.waits_for(command(fresh, f"{node}-membership"), handover)


def test_the_only_gateway_hands_over_to_no_one() -> None:
    handover = run({"gatewayCount": 1}).one("local:Command", "demo-gateway-0-handover")
    assert handover.inputs["environment"]["OTHERS"] == "0"


def test_gateways_change_in_turn_and_before_all_else() -> None:
    changed = run(existing=[*GATEWAYS, *NODES])
    earlier = changed.one("local:Command", "demo-gateway-0-handover")
    assert changed.waits_for(server(changed, "demo-gateway-1"), earlier)
    last = changed.one("local:Command", "demo-gateway-1-handover")
    assert changed.waits_for(server(changed, "demo-control-plane-0"), last)


def test_gateways_listen_to_every_address_that_a_gateway_can_have() -> None:
    for count in (1, 3):
        settings = node_env(command(run({"gatewayCount": count}), "demo-gateway-0-configure"))
        assert settings["GATEWAY_PLACES"] == "'10.8.0.11 10.8.0.12 10.8.0.13 10.8.0.14'"


def test_no_secret_is_in_a_command_line(fresh: Run) -> None:
    for each in [*fresh.all(COMMAND).values(), *fresh.all("local:Command").values()]:
        for text in (each.inputs.get("create"), each.inputs.get("delete")):
            assert text is None or "privateKey" not in text


def test_user_data_contains_no_key_but_the_one_time_host_key(fresh: Run) -> None:
    for name, each in fresh.all(SERVER).items():
        keys = [line for line in each.inputs["userData"].splitlines() if "privateKey" in line]
        assert not keys, name
        assert yaml.safe_load(each.inputs["userData"])["ssh_keys"].keys() == {
            "ed25519_private",
            "ed25519_public",
        }
        assert (name, "userData") in fresh.secret_inputs


def one_time_host_key(of: Recorded) -> str:
    """The public half of the key with which a server boots, if it fits the private one."""
    keys: dict[str, str] = yaml.safe_load(of.inputs["userData"])["ssh_keys"]
    private = serialization.load_ssh_private_key(keys["ed25519_private"].encode(), None)
    openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    assert private.public_key().public_bytes(*openssh).decode() == keys["ed25519_public"]
    return keys["ed25519_public"]


def test_no_two_servers_boot_with_the_same_host_key_and_no_replacement_either(fresh: Run) -> None:
    first, second = (
        [one_time_host_key(each) for each in made.all(SERVER).values()] for made in (fresh, run())
    )
    assert len(first) == len(GATEWAYS) + len(NODES)
    assert len({*first, *second}) == len(first) + len(second)


def test_the_first_connection_asks_for_the_key_that_this_server_booted_with(updated: Run) -> None:
    for name, made in updated.all(SERVER).items():
        # Otherwise each update would replace the server, or change it.
        assert {"userData", "metadata.oneTimeHostKey"} <= set(made.ignore_changes)
        expected = f"{name} had it" if name in NODES else one_time_host_key(made)
        asked = command(updated, f"{name}-host-key").inputs["connection"]["hostKey"]
        assert asked == expected, name


def test_a_server_that_never_said_its_key_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Cloud.new_resource

    def without_metadata(cloud: Cloud, args: MockResourceArgs) -> tuple[str, dict[str, object]]:
        made, state = answer(cloud, args)
        return made, {**state, "metadata": {}} if args.typ.endswith(SERVER) else state

    monkeypatch.setattr(Cloud, "new_resource", without_metadata)
    earlier = run()
    for name in earlier.all(SERVER):
        assert command(earlier, f"{name}-host-key").inputs["connection"]["hostKey"], name


def test_user_data_is_smaller_than_nova_allows(fresh: Run) -> None:
    # Base64, as the API takes it; the limit is in nova/api/openstack/compute/schemas/servers.py.
    for name, each in fresh.all(SERVER).items():
        assert len(base64.b64encode(each.inputs["userData"].encode())) < 65535, name


def test_control_planes_can_read_encrypted_secrets_even_without_encryption() -> None:
    for encrypt, first in ((True, "secretbox"), (False, "identity")):
        configure = command(run({"encryptionAtRest": encrypt}), "demo-control-plane-0-configure")
        document = yaml.safe_load(file_of(configure, "encryption.yaml"))
        assert list(document["resources"][0]["providers"][0]) == [first]


ENCRYPTION_KEY = "demo-control-plane-encryption-key"


@pytest.mark.parametrize(
    ("encrypt", "providers"), [(True, "'key03 identity'"), (False, "'identity key03'")]
)
def test_another_generation_of_the_encryption_key_is_used_when_every_control_plane_has_it(
    encrypt: bool, providers: str
) -> None:
    rotated = run({"rotation": {"encryptionKey": 3}, "encryptionAtRest": encrypt}, existing=NODES)
    rotation = command(rotated, ENCRYPTION_KEY)
    settings = node_env(rotation)
    assert settings["ENCRYPTION"] == providers
    assert settings["CONTROL_PLANES"] == "'10.8.0.21 10.8.0.22 10.8.0.23'"
    hosts = file_of(rotation, "known_hosts").splitlines()
    assert [line.split()[0] for line in hosts] == ["10.8.0.21", "10.8.0.22", "10.8.0.23"]
    control_planes = [name for name in NODES if "control-plane" in name]
    # A snapshot of an earlier generation may come back with a new machine.
    assert rotation.inputs["triggers"] == [f"{name}-id" for name in control_planes]
    # No key passes a gateway.
    assert not any("bytes" in text for text in files(rotation).values())
    for name in control_planes:
        assert rotated.waits_for(rotation, command(rotated, f"{name}-membership"))
        sent = file_of(command(rotated, f"{name}-configure"), "encryption.yaml")
        assert all(f"demo-encryption{end} bytes" in sent for end in ("", "-2", "-3"))


def test_the_key_of_a_first_generation_is_as_it_was(fresh: Run) -> None:
    assert set(fresh.all("RandomBytes")) == {"demo-encryption"}
    assert ENCRYPTION_KEY not in fresh.all(COMMAND)
    rotated = run({"rotation": {"encryptionKey": 2}})
    assert set(rotated.all("RandomBytes")) == {"demo-encryption", "demo-encryption-2"}
    assert all(each.protect for each in rotated.all("RandomBytes").values())


METAL_1 = {"name": "metal-1", "address": "10.8.0.200", "hostKey": "ssh-ed25519 AAAA"}
SERVICE_ACCOUNT_KEY = "demo-service-account-key"


def test_another_service_account_key_is_used_when_every_node_is_a_member() -> None:
    rotated = run(
        {
            "rotation": {"serviceAccountKey": 2, "encryptionKey": 2},
            "workerPools": [{"name": "metal", "machines": [{**METAL_1, "sshUser": "ada"}]}],
        },
        existing=NODES,
    )
    rotation = command(rotated, SERVICE_ACCOUNT_KEY)
    members = [*NODES, "metal-1"]
    for name in members:
        assert rotated.waits_for(rotation, command(rotated, f"{name}-membership")), name
    assert rotated.waits_for(rotation, command(rotated, ENCRYPTION_KEY))
    sent = files(rotation)
    assert [line.split()[0] for line in sent["nodes"].splitlines()] == members
    assert sent["nodes"].splitlines()[-1] == "metal-1 worker ada 10.8.0.200"
    assert [line.split()[-1] for line in sent["nodes"].splitlines()] == [
        line.split()[0] for line in sent["known_hosts"].splitlines()
    ]
    assert sent["service-account.pub"] == "demo-service-account-2 publicKey Pem\n"
    control_planes = [name for name in NODES if "control-plane" in name]
    assert rotation.inputs["triggers"] == [f"{name}-id" for name in control_planes]
    # No private key passes a gateway.
    assert not any("privateKey Pem" in text for text in sent.values())
    configure = command(rotated, "demo-control-plane-0-configure")
    assert file_of(configure, "service-account/1.key") == "demo-service-account privateKey Pem\n"
    assert file_of(configure, "service-account/2.key") == "demo-service-account-2 privateKey Pem\n"
    protection = rotated.one("Stash", "demo-deletion-protection")
    assert rotated.waits_for(protection, rotation)


def test_without_another_service_account_key_nothing_rotates(fresh: Run) -> None:
    assert SERVICE_ACCOUNT_KEY not in fresh.all(COMMAND)
    assert "demo-service-account-2" not in fresh.all("PrivateKey")


SSH_KEY = ["demo-ssh privateKey Openssh\n", "demo-ssh-2 privateKey Openssh\n"]
ROTATED: dict[str, object] = {
    "rotation": {"sshKey": 2, "serviceAccountKey": 2},
    "workerPools": [{"name": "metal", "machines": [METAL_1]}],
}
MACHINES = [*GATEWAYS, *NODES, "metal-1"]
LOCAL = "local:Command"


def test_machines_accept_another_ssh_key_before_and_no_other_one_after_everything() -> None:
    rotated = run(ROTATED, existing=[*GATEWAYS, *NODES], ssh_key=SSH_KEY[0])
    for name in MACHINES:
        accept = rotated.one(LOCAL, f"{name}-ssh-key")
        only = rotated.one(LOCAL, f"{name}-only-ssh-key")
        settings = accept.inputs["environment"]
        assert json.loads(settings["KEYS"]) == SSH_KEY[::-1]
        assert json.loads(settings["ACCEPT"]) == [
            "demo-ssh-2 publicKey Openssh",
            "demo-ssh publicKey Openssh",
        ]
        assert json.loads(only.inputs["environment"]["RETIRE"]) == ["demo-ssh publicKey Openssh"]
        machine = json.loads(settings["MACHINE"])
        assert machine["name"] == name
        assert (machine["via"] is None) == (name in GATEWAYS)
        assert rotated.waits_for(command(rotated, f"{name}-configure"), accept)
        if name != "metal-1":
            assert rotated.waits_for(accept, command(rotated, f"{name}-host-key"))
        if name not in GATEWAYS:
            for gateway in GATEWAYS:
                assert rotated.waits_for(accept, command(rotated, f"{gateway}-configure"))
        for other in rotated.all(COMMAND).values():
            assert rotated.waits_for(only, other), (name, other.name)


def test_a_machine_of_after_the_rotation_accepts_the_newest_ssh_key_only() -> None:
    rotated = run(ROTATED, existing=[*GATEWAYS, *NODES], ssh_key=SSH_KEY[1])
    for name in MACHINES:
        settings = rotated.one(LOCAL, f"{name}-ssh-key").inputs["environment"]
        assert json.loads(settings["ACCEPT"]) == ["demo-ssh-2 publicKey Openssh"]


def test_the_first_connection_uses_the_ssh_key_that_the_server_was_created_with() -> None:
    rotated = run(ROTATED)
    for name in (*GATEWAYS, *NODES):
        assert server(rotated, name).inputs["metadata"]["sshKey"] == "2"
        first = command(rotated, f"{name}-host-key").inputs["connection"]
        assert first["privateKey"] == SSH_KEY[1]
        assert "demo-ssh-2 publicKey" in server(rotated, name).inputs["userData"]


def test_machines_cannot_leave_while_the_ssh_key_changes() -> None:
    existing = [*GATEWAYS, *NODES, "demo-worker-2"]
    with pytest.raises(ConfigError, match=r"rotation\.sshKey = 2: demo-worker-2 cannot leave"):
        run(ROTATED, existing=existing, ssh_key=SSH_KEY[0])
    assert run(ROTATED, existing=existing, ssh_key=SSH_KEY[1]).resources


def test_a_users_own_ssh_key_has_no_generations() -> None:
    own = {"sshPrivateKey": "key"}
    with pytest.raises(ConfigError, match=r"rotation\.sshKey = 2: sshPrivateKey is your own"):
        run({**own, "rotation": {"sshKey": 2}}, secret=own)


def test_an_ssh_key_of_any_generation_is_no_stranger_at_preview() -> None:
    for key in SSH_KEY:
        assert run(ROTATED, existing=NODES, ssh_key=key, preview=True).resources


def test_without_another_ssh_key_nothing_rotates(fresh: Run) -> None:
    assert not any(name.endswith("-ssh-key") for name in fresh.all(LOCAL))
    assert "sshKey" not in server(fresh, "demo-worker-0").inputs["metadata"]


NEW_HOST_KEYS: dict[str, object] = {
    "rotation": {"hostKeys": 2},
    "workerPools": [{"name": "metal", "machines": [METAL_1]}],
}
SERVERS = [*GATEWAYS, *NODES]


def host_key_of(name: str, generation: int, part: str = "publicKey") -> str:
    """A host key as the mocks name it; the gateways share one."""
    owner = "demo-gateway" if name in GATEWAYS else name
    number = "" if generation == 1 else f"-{generation}"
    return f"{owner}-host-key{number} {part} Openssh\n"


def folder_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The host keys in the folder that a login's command sends."""
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(environment["FOLDER"]))) as tar:
        opened = {name: tar.extractfile(name) for name in tar.getnames() if "host_key" in name}
        return {name: file.read().decode() for name, file in opened.items() if file}


def test_servers_show_another_host_key_before_and_no_older_one_after_everything() -> None:
    rotated = run(NEW_HOST_KEYS, existing=SERVERS)
    for name in SERVERS:
        show = rotated.one(LOCAL, f"{name}-show-host-key")
        only = rotated.one(LOCAL, f"{name}-only-host-key")
        settings = show.inputs["environment"]
        machine = json.loads(settings["MACHINE"])
        assert machine["host_key"] == host_key_of(name, 2)
        assert (machine["via"] is None) == (name in GATEWAYS)
        assert machine["via"] is None or machine["via"]["host_key"] == host_key_of(GATEWAYS[0], 2)
        assert json.loads(settings["OLDER"]) == [host_key_of(name, 1)]
        newest = {
            "host_key": host_key_of(name, 2, "privateKey"),
            "host_key.pub": host_key_of(name, 2),
        }
        assert folder_of(settings) == newest | {
            "older_host_key": host_key_of(name, 1, "privateKey"),
            "older_host_key.pub": host_key_of(name, 1),
        }
        assert json.loads(only.inputs["environment"]["OLDER"]) == [host_key_of(name, 1)]
        assert folder_of(only.inputs["environment"]) == newest
        assert rotated.waits_for(show, command(rotated, f"{name}-host-key"))
        assert rotated.waits_for(command(rotated, f"{name}-configure"), show)
        if name not in GATEWAYS:
            for gateway in GATEWAYS:
                assert rotated.waits_for(show, command(rotated, f"{gateway}-configure"))
        for other in rotated.all(COMMAND).values():
            assert rotated.waits_for(only, other), (name, other.name)
    # That of an existing machine is its own.
    assert not any("metal" in name and "host-key" in name for name in rotated.all(LOCAL))
    assert rotated.outputs["hostKeys"] == 2


def test_each_connection_asks_for_the_newest_host_key_but_the_first_one() -> None:
    rotated = run(NEW_HOST_KEYS, existing=SERVERS)
    for name, each in rotated.all(COMMAND).items():
        to = each.inputs["connection"]
        first = name.endswith("-host-key")
        ends = [to["proxy"]] if "proxy" in to else []
        ends += [] if first or name == "metal-1-configure" else [to]
        assert all("-host-key-2 publicKey" in end["hostKey"] for end in ends), name
        if first:
            machine = name.removesuffix("-host-key")
            assert file_of(each, "host_key") == host_key_of(machine, 2, "privateKey")
        if name.endswith("-membership") and name != "metal-1-membership":
            assert "-host-key-2 publicKey" in file_of(each, "known_hosts")


def test_generations_of_host_keys_next_to_each_other_are_of_different_curves() -> None:
    rotated = run({"rotation": {"hostKeys": 3}}, existing=SERVERS, host_keys=2)
    keys = rotated.all("PrivateKey")
    for owner in ("demo-gateway", *NODES):
        names = [f"{owner}-host-key", f"{owner}-host-key-2", f"{owner}-host-key-3"]
        assert [keys[name].inputs["ecdsaCurve"] for name in names] == ["P256", "P384", "P256"]


def test_a_server_of_after_the_rotation_shows_the_newest_host_key_only() -> None:
    rotated = run(NEW_HOST_KEYS, existing=SERVERS, host_keys=2)
    for name in SERVERS:
        settings = rotated.one(LOCAL, f"{name}-show-host-key").inputs["environment"]
        assert json.loads(settings["OLDER"]) == []
        assert set(folder_of(settings)) == {"host_key", "host_key.pub"}


@pytest.mark.parametrize(
    ("number", "shown", "leaves", "said"),
    [
        (1, 2, False, "it must never go back; set it to 2 or more"),
        (3, None, False, "the servers show 1: set it to 2, pulumi up, and then go on"),
        (2, None, True, "demo-worker-2 cannot leave in the same update"),
    ],
)
def test_a_number_that_the_host_keys_cannot_follow_is_refused(
    number: int, shown: int | None, leaves: bool, said: str
) -> None:
    existing = [*SERVERS, *(["demo-worker-2"] if leaves else [])]
    with pytest.raises(ConfigError, match=rf"rotation\.hostKeys = {number}: {said}"):
        run({"rotation": {"hostKeys": number}}, existing=existing, host_keys=shown)


def test_machines_leave_when_the_rotation_of_host_keys_is_done() -> None:
    assert run(NEW_HOST_KEYS, existing=[*SERVERS, "demo-worker-2"], host_keys=2).resources


def test_both_ssh_and_host_keys_can_change_in_one_update() -> None:
    rotation = {"rotation": {"hostKeys": 2, "sshKey": 2}}
    rotated = run(rotation, existing=SERVERS, ssh_key=SSH_KEY[0])
    for name in SERVERS:
        show = rotated.one(LOCAL, f"{name}-show-host-key")
        assert json.loads(show.inputs["environment"]["KEYS"]) == SSH_KEY[::-1]
        assert rotated.waits_for(rotated.one(LOCAL, f"{name}-ssh-key"), show)


def test_without_another_host_key_nothing_rotates(fresh: Run) -> None:
    assert not any(name.endswith("-host-key") for name in fresh.all(LOCAL))
    keys = {name for name in fresh.all("PrivateKey") if "host-key" in name}
    assert keys == {"demo-gateway-host-key", *(f"{name}-host-key" for name in NODES)}
    assert all(fresh.one("PrivateKey", name).inputs["ecdsaCurve"] == "P256" for name in keys)
    assert fresh.outputs["hostKeys"] == 1


def test_every_connection_checks_the_host_key(fresh: Run) -> None:
    for each in fresh.all(COMMAND).values():
        connection = each.inputs["connection"]
        assert connection["hostKey"]
        assert "proxy" not in connection or connection["proxy"]["hostKey"]


PROVIDER = "providers:kubernetes"
BINDING = "rbac.authorization.k8s.io/v1:ClusterRoleBinding"


def test_the_users_kubeconfig_is_not_the_identity_of_the_program(fresh: Run) -> None:
    own = ("demo-admin certificate", "demo-admin privateKey Pem")
    commands = [each for each in fresh.all(COMMAND).values() if each.inputs.get("stdin")]
    held = [files(each)["kubeconfig"] for each in commands if "kubeconfig" in files(each)]
    # Control planes, memberships, and the wait for the API.
    assert len(held) == 3 + len(NODES) + 1
    provider = fresh.one(PROVIDER, "demo-addons")
    assert {identity(each) for each in (*held, provider.inputs["kubeconfig"])} == {own}
    users = ("demo-administrator certificate", "demo-administrator privateKey Pem")
    assert identity(fresh.outputs["kubeconfig"]) == users

    program, user = (
        fresh.one("CertRequest", f"demo-{role}") for role in ("admin", "administrator")
    )
    assert program.inputs["subject"] == {
        "commonName": "openstack-kubernetes",
        "organization": "kubeadm:cluster-admins",
    }
    assert user.inputs["subject"] == {
        "commonName": "administrator",
        "organization": "openstack-kubernetes:administrators-1",
    }
    # Renewed or rotated, the user's certificate changes nothing else; only a destroy begins with
    # what waits for everything.
    for urn, each in fresh.resources.items():
        assert urn.endswith("::demo-deletion-protection") or not fresh.waits_for(
            each, fresh.one("LocallySignedCert", "demo-administrator")
        )


def test_a_drain_years_later_has_a_certificate_that_is_valid(fresh: Run) -> None:
    program = fresh.one("LocallySignedCert", "demo-admin").inputs
    authority = fresh.one("SelfSignedCert", "demo-cluster-ca").inputs
    assert program["validityPeriodHours"] == authority["validityPeriodHours"]


def test_another_generation_of_the_kubeconfig_changes_only_the_administrator(fresh: Run) -> None:
    rotated = run({"rotation": {"kubeconfig": 2}})
    assert rotated.resources.keys() == fresh.resources.keys()
    changed = {
        urn: each
        for urn, each in rotated.resources.items()
        for before in [fresh.resources[urn]]
        if (each.compared, each.replacement_trigger)
        != (before.compared, before.replacement_trigger)
    }
    # The certificate follows from its request.
    key = rotated.one("PrivateKey", "demo-administrator")
    request = rotated.one("CertRequest", "demo-administrator")
    binding = rotated.one(BINDING, "demo-addons-administrators")
    assert changed.keys() == {key.urn, request.urn, binding.urn}
    group = "openstack-kubernetes:administrators-2"
    assert key.replacement_trigger == group
    assert request.inputs["subject"]["organization"] == group
    assert [subject["name"] for subject in binding.inputs["subjects"]] == [group]
    assert binding.inputs["roleRef"]["name"] == "cluster-admin"


def test_the_cloud_cleanup_on_destroy_has_the_login_of_the_stack() -> None:
    password = {"openstack:authUrl": "https://cloud.example.org", "openstack:password": "hidden"}
    cleared = run(password).one("local:Command", "demo-cloud-cleanup")
    assert cleared.inputs["delete"].endswith(f"-m commands.cloud_cleanup {CLUSTER_ID}")
    assert cleared.inputs["environment"] == {
        "OS_AUTH_URL": "https://cloud.example.org",
        "OS_PASSWORD": "hidden",
    }


def test_only_allowed_networks_reach_the_gateways(fresh: Run) -> None:
    rules = fresh.all("secGroupRule:SecGroupRule").values()
    from_outside = {r.inputs["remoteIpPrefix"] for r in rules if "remoteIpPrefix" in r.inputs}
    assert from_outside == {"203.0.113.0/24"}


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


def test_a_secret_among_the_add_ons_conceals_the_charts_values() -> None:
    addons = {"cni": {"kind": "none"}, "cinderCsi": {"enabled": False}}
    chosen = {"addons": {**addons, "metricsServer": {"values": {"a": "hidden"}}}}
    values = ("demo-addons-metrics-server", "values")
    assert values in run(chosen, secret=["addons"]).secret_inputs
    assert values not in run(chosen).secret_inputs


METAL = {
    "name": "metal",
    "machines": [
        {"name": "metal-a", "address": "10.8.1.5", "hostKey": "ecdsa-sha2-nistp256 AAAA"},
    ],
}


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
BUCKET = {"endpoint": "https://object.example.org/", "name": "backups", "accessKey": "AKEY"}


def test_control_planes_know_their_bucket_and_the_first_one_the_snapshot_to_restore() -> None:
    name = "demo-12345678/20261122T010000Z-demo-control-plane-1.db.gz"
    made = run(
        {"backup": {"bucket": BUCKET, "restore": name}, "backupSecretKey": "very-secret"},
        secret=["backupSecretKey"],
    )
    first, second = (command(made, f"demo-control-plane-{index}-configure") for index in range(2))
    bucket = dict(line.split("=", 1) for line in file_of(first, "bucket.env").splitlines())
    assert bucket["BUCKET_ENDPOINT"] == "https://object.example.org"
    assert bucket["BUCKET_SECRET_KEY"] == "very-secret"
    assert bucket["BUCKET_FOLDER"] == CLUSTER_ID
    assert node_env(first)["RESTORE"] == name
    assert "RESTORE" not in node_env(second)
    assert "very-secret" not in file_of(first, "node.env")
    # The other machines do not need it.
    for other in (
        "demo-worker-0-configure",
        "demo-gateway-0-configure",
        "demo-control-plane-0-membership",
    ):
        assert not {"bucket.env", "backup.key"} & files(command(made, other)).keys()


def test_control_planes_with_a_bucket_can_close_and_open_its_objects(fresh: Run) -> None:
    made = run(
        {"backup": {"bucket": BUCKET}, "backupSecretKey": "very-secret"}, secret=["backupSecretKey"]
    )
    certificate = made.one("SelfSignedCert", "demo-backup")
    assert certificate.inputs["allowedUses"] == ["key_agreement"]
    for index in range(3):
        folder = files(command(made, f"demo-control-plane-{index}-configure"))
        assert folder["backup.key"] == certificate.inputs["privateKeyPem"]
        assert folder["backup.crt"] == "demo-backup certificate\n"
    assert "backup.key" not in files(command(fresh, "demo-control-plane-0-configure"))


def test_another_generation_of_the_backup_key_closes_and_the_earlier_ones_still_open() -> None:
    made = run(
        {
            "backup": {"bucket": BUCKET},
            "backupSecretKey": "very-secret",
            "rotation": {"backupKey": 3},
        },
        secret=["backupSecretKey"],
    )
    folder = files(command(made, "demo-control-plane-0-configure"))
    assert folder["backup.crt"] == "demo-backup-3 certificate\n"
    keys = {name: text for name, text in folder.items() if re.fullmatch(r"backup.*\.key", name)}
    assert keys == {
        "backup.key": "demo-backup-3 privateKey Pem\n",
        "backup-1.key": "demo-backup privateKey Pem\n",
        "backup-2.key": "demo-backup-2 privateKey Pem\n",
    }
    certificates = [made.one("SelfSignedCert", f"demo-backup{end}") for end in ("", "-2", "-3")]
    assert all(each.protect for each in certificates)


def test_only_the_server_that_the_stack_began_with_may_begin_an_empty_cluster(
    fresh: Run, updated: Run
) -> None:
    def initialize(of: Run, index: int = 0) -> str:
        return node_env(command(of, f"demo-control-plane-{index}-configure"))["INITIALIZE"]

    assert initialize(fresh) == "true"
    assert initialize(updated) == "restore"
    assert initialize(updated, 1) == initialize(fresh, 1) == "false"
    on_purpose = run({"controlPlane": {"beginEmpty": True}}, existing=NODES)
    assert initialize(on_purpose) == "true"
    assert initialize(on_purpose, 1) == "false"


def test_what_the_first_control_plane_may_do_changes_with_its_server_only(updated: Run) -> None:
    stash = updated.one("index:Stash", "demo-control-plane-0-initialize")
    assert stash.ignore_changes == ["input"]
    assert stash.replacement_trigger == "demo-control-plane-0-id"


def test_a_pool_may_let_its_nodes_leave_with_local_volumes(fresh: Run) -> None:
    name = "demo-worker-0-membership"
    assert "DELETE_LOCAL_VOLUMES" not in node_env(command(fresh, name))
    allowed = run({"worker": {"deleteLocalVolumes": True}})
    assert node_env(command(allowed, name))["DELETE_LOCAL_VOLUMES"] == "true"


def test_a_pool_says_how_many_of_its_nodes_may_be_unhealthy(fresh: Run) -> None:
    worker = node_env(command(fresh, "demo-worker-0-membership"))
    assert (worker["POOL"], worker["MAX_UNHEALTHY"]) == ("worker", "10%")
    assert "MAX_UNHEALTHY" not in node_env(command(fresh, "demo-control-plane-0-membership"))
    more = run({"worker": {"maxUnhealthy": 3}})
    assert node_env(command(more, "demo-worker-0-membership"))["MAX_UNHEALTHY"] == "3"


def test_without_backups_there_is_no_timer(fresh: Run) -> None:
    assert node_env(command(fresh, "demo-control-plane-0-configure"))["BACKUP_HOURS"] == "6"
    none = run({"backup": {"enabled": False}})
    assert "BACKUP_HOURS" not in node_env(command(none, "demo-control-plane-0-configure"))


def test_packages_may_come_from_mirrors() -> None:
    url = "https://packages.example.org"
    distribution = {"archive": f"{url}/debian", "security": f"{url}/debian-security"}
    mirrors = {"kubernetes": f"{url}/k8s/", "distribution": distribution}
    mirrored = run({"packageMirrors": mirrors})
    for each in mirrored.all(SERVER).values():
        written = yaml.safe_load(each.inputs["userData"])["apt"]
        assert written["primary"] == [{"arches": ["default"], "uri": f"{url}/debian"}]
        assert written["security"] == [{"arches": ["default"], "uri": f"{url}/debian-security"}]
        assert written["preserve_sources_list"] is False
    for name in ("demo-gateway-0-configure", "demo-worker-0-configure"):
        settings = node_env(command(mirrored, name))
        assert settings["KUBERNETES_PACKAGES"] == f"{url}/k8s"
        assert "CONTAINERD_PACKAGES" not in settings


def test_the_contract_names_everything_in_a_folder() -> None:
    everything = run(
        {
            "timeServers": ["ntp.example.org"],
            "packageMirrors": {
                "kubernetes": "https://a.example",
                "containerd": "https://b.example",
            },
            "httpProxy": {"http": "http://proxy.example.org:3128"},
            "oidc": {
                "issuerUrl": "https://login.example.org",
                "clientId": "kubernetes",
                "caCertificate": CERTIFICATE,
            },
            "addons": {
                **MINIMAL["addons"],
                "imageRegistry": "r.example/m",
                "kured": {"enabled": True},
                "objectStore": {"enabled": True},
            },
            "backup": {
                "bucket": {
                    **BUCKET,
                    "caCertificate": CERTIFICATE,
                },
                "restore": "demo-12345678/x.db.gz",
            },
            "backupSecretKey": "very-secret",
        },
        secret=["backupSecretKey"],
    )
    folders = [each for each in everything.all(COMMAND).values() if each.inputs.get("stdin")]
    # The scripts are sent as whole folders, which the contract names.
    sent = {name for each in folders for name in files(each)}
    scripts = {name for name in sent if (USERDATA / name).exists()}
    held = {name.rpartition("/")[2] for name in sent - scripts}
    held |= {name.partition("/")[0] for name in scripts}
    assert {"proxy.env", "admission.yaml", "cluster", "host_key"} <= held
    settings = {key for each in folders for key in node_env(each)}
    assert {
        "KUBERNETES_PACKAGES",
        "TIME_SERVERS",
        "IMAGE_REGISTRY",
        "REBOOT_DAYS",
        "ETCD_DEVICE",
    } <= settings
    contract = set(re.findall(r"[\w.-]+", (ROOT / "docs/contract.md").read_text()))
    assert held | settings <= contract


def test_without_mirrors_the_images_own_package_sources_stay(fresh: Run) -> None:
    for each in fresh.all(SERVER).values():
        assert "apt" not in yaml.safe_load(each.inputs["userData"])


def test_an_existing_machine_joins_without_a_server() -> None:
    joined = run({"workerPools": [METAL]})
    assert "metal-a" not in joined.all(SERVER)
    configure = command(joined, "metal-a-configure").inputs["connection"]
    assert configure["host"] == "10.8.1.5"
    assert configure["hostKey"] == "ecdsa-sha2-nistp256 AAAA"


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


def test_a_server_can_boot_from_a_volume() -> None:
    booted = run({"worker": {"volume": {"size": 20, "type": "fast"}}})
    disk = server(booted, "demo-worker-0").inputs["blockDevices"][0]
    assert (disk["volumeSize"], disk["volumeType"], disk["uuid"]) == (20, "fast", "node-image-id")
    assert "imageName" not in server(booted, "demo-worker-0").inputs


def test_outputs_that_are_being_written_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The lab saw "failed to load checkpoint: EOF" once in many runs.
    answers = [OSError("EOF"), OSError("EOF"), {"outputs": {"nodes": [], "kubeconfig": "hidden"}}]

    async def invoke(*_: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("pulumi.runtime.invoke_async", invoke)
    # A loop of its own: asyncio.run would leave the mocks without theirs.
    with closing(asyncio.new_event_loop()) as loop:
        read = loop.run_until_complete(previous_outputs._last_outputs("organization/project/demo"))
    assert read["nodes"] == []
    assert "kubeconfig" not in read
