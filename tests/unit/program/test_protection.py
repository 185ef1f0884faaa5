"""Resources that hold what cannot be made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from config.errors import ConfigError
from tests.unit.engine import (
    CLUSTER_ID,
    GATEWAYS,
    NODES,
    SERVER,
    SMALL,
    Recorder,
    Run,
    command,
    node_env,
    run,
    server,
)


def test_a_living_cluster_keeps_its_name() -> None:
    # As after `pulumi stack rename`: the name is the stack's if none is set.
    with pytest.raises(ConfigError, match="clusterName = prod: the cluster of this stack is demo;"):
        run(stack="prod", existing=[*GATEWAYS, *NODES, "demo-a-control-plane-0"])
    assert run({"clusterName": "demo"}, stack="prod", existing=NODES).resources


@pytest.mark.parametrize("preview", [True, False])
def test_a_living_cluster_keeps_what_its_machines_cannot_change(preview: bool) -> None:
    etcd_volume = {"controlPlane": {"etcdVolume": {"size": 10}}}
    made_with = run({**SMALL, **etcd_volume}).outputs["immutableSettings"]

    def update(more: Mapping[str, object], made_with: Mapping[str, str] | None) -> Run:
        return run({**SMALL, **more}, existing=NODES, made_with=made_with, preview=preview)

    with pytest.raises(
        ConfigError, match=r"hostCidr = 10\.9\.0\.0/22: the cluster was created with 10\.8"
    ):
        update({**etcd_volume, "hostCidr": "10.9.0.0/22"}, made_with)
    with pytest.raises(ConfigError, match=r"controlPlane\.etcdVolume: etcd's data is on volumes"):
        update({}, made_with)
    assert update(etcd_volume, made_with).all(SERVER)
    # The last release has no such output.
    assert update({"hostCidr": "10.9.0.0/22"}, None).all(SERVER)


# As the first update chose it, and what that one noted.
NETWORKS: Mapping[str, Mapping[str, object]] = {
    "own": {},
    "existing": {"existingNetwork": {"network": "office", "subnet": "office-1"}},
}


@pytest.fixture(scope="module")
def noted() -> Mapping[str, Mapping[str, str]]:
    """The output `immutableSettings` of a cluster in each of the networks."""
    return {
        name: run({**SMALL, **network}).outputs["immutableSettings"]
        for name, network in NETWORKS.items()
    }


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_living_cluster_may_stay_in_its_network(
    noted: Mapping[str, Mapping[str, str]], network: str, preview: bool
) -> None:
    same = {**SMALL, **NETWORKS[network]}
    assert run(same, existing=NODES, made_with=noted[network], preview=preview).all(SERVER)


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize(
    ("network", "update", "told"),
    [
        (
            "existing",
            {"existingNetwork": {"network": "lab", "subnet": "lab-1"}},
            r"existingNetwork\.network = lab: the cluster was created in the network office-id",
        ),
        (
            "existing",
            {},
            r"existingNetwork\.network: the cluster was created in the network office-id",
        ),
        (
            "own",
            NETWORKS["existing"],
            r"existingNetwork\.network = office: the cluster was created in a network of its own",
        ),
        (
            "own",
            {"externalNetwork": "dmz"},
            r"externalNetwork = dmz: the cluster was created in the network public-id",
        ),
    ],
)
def test_a_living_cluster_keeps_its_networks_without_the_cloud_checks(
    noted: Mapping[str, Mapping[str, str]],
    network: str,
    update: Mapping[str, object],
    told: str,
    preview: bool,
) -> None:
    with pytest.raises(ConfigError, match=told):
        run({**SMALL, **update}, existing=NODES, made_with=noted[network], preview=preview)


def test_a_control_plane_does_not_leave_the_zone_of_its_etcd_volume() -> None:
    def update(zones: list[str], before: Mapping[str, str], count: int = 3) -> Mapping[str, str]:
        etcd_volume = {"etcdVolume": {"size": 10}, "availabilityZones": zones}
        keys = {**SMALL, "controlPlane": etcd_volume, "controlPlaneCount": count}
        made: Mapping[str, str] = run(keys, existing=NODES, made_with=before).outputs[
            "immutableSettings"
        ]
        return made

    # The last release does not say the zones.
    earlier = {"controlPlane.etcdVolume": "true"}
    made_with = update(["a", "b"], earlier)
    for other, told in (
        (
            ["a", "c"],
            r" = a, c: the etcd volume of demo-control-plane-1 was created in b, and its serv",
        ),
        ([], r": the etcd volume of demo-control-plane-0 was created in a, .* to whichever zone"),
    ):
        with pytest.raises(ConfigError, match=rf"^.*\n  controlPlane\.availabilityZones{told}"):
            update(other, made_with)
    with pytest.raises(ConfigError, match="was created in whichever zone the cloud chooses"):
        update(["a"], update([], earlier))
    assert update(["a", "b"], made_with) == made_with
    one = update(["a"], made_with, count=1)
    assert update(["a", "c", "b"], one)["controlPlane.availabilityZones"] == "a,c,b"


def test_an_image_or_flavor_change_is_never_an_in_place_rebuild(fresh: Run) -> None:
    for each in fresh.all(SERVER).values():
        assert each.delete_before_replace
        assert not each.replace_on_changes
        assert {"flavorName", "imageName", "blockDevices"} <= set(each.ignore_changes)


def test_only_another_name_or_boot_volume_in_the_configuration_replaces_a_server() -> None:
    def triggers(**worker: Any) -> dict[str, str]:
        servers = run({**SMALL, "worker": worker}).all(SERVER)
        return {name: each.replacement_trigger for name, each in servers.items()}

    def replaced(**worker: Any) -> set[str]:
        after = triggers(**worker)
        return {name for name, trigger in before.items() if after[name] != trigger}

    before = triggers()
    workers = {name for name in before if "worker" in name}
    assert workers
    assert replaced() == set()
    assert replaced(image="another") == workers
    assert replaced(flavor="another") == workers
    assert replaced(volume={"size": 20}) == workers
    one, other = (triggers(volume={"size": size}) for size in (20, 21))
    assert {name for name in one if one[name] != other[name]} == workers


def test_a_cluster_keeps_its_floating_ip_when_the_external_network_is_renamed(fresh: Run) -> None:
    address = fresh.one("networking/floatingIp:FloatingIp", "demo-gateway")
    assert address.inputs["pool"] == "public"
    assert address.ignore_changes == ["pool"]
    assert address.replacement_trigger == "public-id"


def test_another_policy_does_not_delete_all_servers_of_the_group_at_once(fresh: Run) -> None:
    groups = fresh.all("compute/serverGroup:ServerGroup")
    assert set(groups) == {"demo-gateway", "demo-control-plane", "demo-worker"}
    assert all(group.create_before_delete for group in groups.values())


def test_another_zone_does_not_delete_the_volume_of_etcd() -> None:
    made = run({"controlPlane": {"etcdVolume": {"size": 10}, "availabilityZones": ["a", "b"]}})
    volume = made.one("blockstorage/volume:Volume", "demo-control-plane-1-etcd")
    assert volume.inputs["availabilityZone"] == "b"
    assert volume.ignore_changes == ["availabilityZone", "size", "volumeType", "metadata"]


def test_a_volume_of_etcd_is_where_cinder_can_put_it() -> None:
    zones = ["a", "of servers only"]
    made = run({"controlPlane": {"etcdVolume": {"size": 10}, "availabilityZones": zones}})
    volumes = made.all("blockstorage/volume:Volume")
    for index, (of_server, of_volume) in enumerate(zip(zones, ("a", None), strict=True)):
        name = f"demo-control-plane-{index}"
        assert server(made, name).inputs["availabilityZone"] == of_server
        assert volumes[f"{name}-etcd"].inputs.get("availabilityZone") == of_volume


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
    keys = {**SMALL, "controlPlane": {"etcdVolume": {"size": 10}}, **more}
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


def test_volumes_are_marked_while_the_api_answers(fresh: Run) -> None:
    made = run({"keepVolumes": True})
    keeper = made.one("local:Command", "demo-keep-volumes")
    assert keeper.inputs["delete"].endswith(f"-m commands.keep_volumes {CLUSTER_ID}")
    assert "https://198.51.100.7:6443" in keeper.inputs["environment"]["KUBECONFIG_TEXT"]
    assert ("demo-keep-volumes", "environment") in made.secret_inputs
    for name in [*GATEWAYS, *(name for name in NODES if "control-plane" in name)]:
        assert made.waits_for(keeper, server(made, name)), name
    for rule in made.all("secGroupRule:SecGroupRule").values():
        assert made.waits_for(keeper, rule)
    cleanup = made.one("local:Command", "demo-cloud-cleanup").inputs["delete"]
    assert cleanup.endswith(f"-m commands.cloud_cleanup {CLUSTER_ID} --keep-volumes")
    assert "demo-keep-volumes" not in fresh.all("local:Command")


def test_the_cloud_is_cleaned_up_before_what_its_load_balancers_hold(fresh: Run) -> None:
    cleanup = fresh.one("local:Command", "demo-cloud-cleanup")
    for kind in ("RouterInterface", "Subnet", "Network"):
        [held] = fresh.all(f":{kind}").values()
        assert fresh.waits_for(cleanup, held), kind


def test_the_cloud_cleanup_on_destroy_has_the_login_of_the_stack() -> None:
    password = {"openstack:authUrl": "https://cloud.example.org", "openstack:password": "hidden"}
    cleared = run(password).one("local:Command", "demo-cloud-cleanup")
    assert cleared.inputs["delete"].endswith(f"-m commands.cloud_cleanup {CLUSTER_ID}")
    assert cleared.inputs["environment"] == {
        "OS_AUTH_URL": "https://cloud.example.org",
        "OS_PASSWORD": "hidden",
    }


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


@pytest.mark.parametrize(
    "refused",
    [
        {"rotation": {"certificateAuthorities": 3}},
        {"hostCidr": "10.9.0.0/22", "rotation": {"encryptionKey": 2}},
        {"clusterName": "another"},
    ],
)
def test_a_refused_update_makes_no_key_that_nothing_may_delete(
    monkeypatch: pytest.MonkeyPatch, fresh: Run, refused: dict[str, object]
) -> None:
    protected: set[str] = set()
    register = Recorder.RegisterResource

    def record(self: Recorder, request: Any) -> Any:  # noqa: ANN401
        protected.update([request.name] if request.protect else [])
        return register(self, request)

    monkeypatch.setattr(Recorder, "RegisterResource", record)
    with pytest.raises(ConfigError):
        run(refused, existing=[*GATEWAYS, *NODES], made_with={"hostCidr": "10.8.0.0/22"})
    assert protected <= {each.name for each in fresh.resources.values()}
