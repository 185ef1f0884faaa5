"""Messages to a user whose cloud cannot host the configuration."""

import json
import os
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from ipaddress import IPv4Address, IPv4Network
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from keystoneauth1.exceptions import ConnectTimeout
from openstack.exceptions import ForbiddenException

from cloud.checks import clusters, faults, warnings
from cloud.facts import (
    UNLIMITED,
    CloudNetwork,
    Facts,
    Flavor,
    FloatingIp,
    Image,
    Limit,
    Port,
    Router,
    Server,
    Subnet,
)
from cloud.login import CloudLogin
from cloud.query import query
from cloud.quotas import needs
from config import immutable
from config.errors import ConfigError
from config.load import load
from config.models.cluster import Cluster
from config.security_groups import rules
from tests.runbooks import runbook
from tests.unit.clusters import LEAST
from tests.unit.engine import Run

# The machines of the cluster below.
ROLES = {"gateway": 2, "control-plane": 3, "worker": 2}
MACHINE = {"name": "metal-0", "address": "10.9.0.60", "hostKey": "ssh-ed25519 AAAA"}
SERVICES = frozenset({"block-storage", "load-balancer"})

# A cloud that can host the cluster below.
CLOUD = Facts(
    flavors=(
        Flavor(name="m1.small", cores=1, memory=2048, disk=10),
        Flavor(name="m1.medium", cores=2, memory=4096, disk=20),
    ),
    images=(Image(name="debian-13", least_disk=3, least_memory=512),),
    zones=frozenset({"az-1", "az-2"}),
    volume_types=frozenset({"ssd", "hdd"}),
    networks=(
        CloudNetwork(id="1", name="public", external=True),
        CloudNetwork(id="2", name="tenant"),
    ),
    subnets=(),
    floating_ips=(),
    services=SERVICES,
    volume_zones=frozenset({"az-1"}),
    ports=(),
    routers=(),
)
FAST = {"name": "fast", "volumeType": "sdd"}


def cluster(**more: object) -> Cluster:
    return load({**LEAST, "dnsNameservers": ["192.0.2.53"], **more}, "demo")


def told(facts: Facts = CLOUD, **more: object) -> list[str]:
    return [str(fault) for fault in faults(cluster(**more), facts)]


def test_a_cloud_that_has_everything_has_no_fault() -> None:
    assert told() == []


def test_what_the_cloud_does_not_answer_is_no_fault() -> None:
    assert told(Facts(), dns={"zone": "example.org"}, floatingIp="203.0.113.10") == []


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (
            {"flavor": "m1.medum"},
            "flavor = m1.medum: no such flavor; did you mean m1.medium?",
        ),
        (
            {"controlPlane": {"flavor": "xl"}},
            "controlPlane.flavor = xl: no such flavor; this project sees m1.medium, m1.small",
        ),
        ({"image": "debian-12"}, "image = debian-12: no such image; did you mean debian-13?"),
        (
            {"workerPools": [{"name": "gpu", "count": 1, "image": "gpu"}]},
            "workerPools[0].image = gpu: no such image; this project sees debian-13",
        ),
        (
            {"worker": {"availabilityZones": ["az-1", "az-9"]}},
            "worker.availabilityZones[1] = az-9: no such availability zone; did you mean az-",
        ),
        (
            {"gateway": {"volume": {"size": 20, "type": "sdd"}}},
            "gateway.volume.type = sdd: no such volume type; did you mean ssd",
        ),
        (
            {"controlPlane": {"etcdVolume": {"size": 20, "type": "nvme"}}},
            "controlPlane.etcdVolume.type = nvme: no such volume type; this project sees hdd, ssd",
        ),
        (
            {"addons": {"cinderCsi": {"storageClasses": [{"name": "a"}, FAST]}}},
            "addons.cinderCsi.storageClasses[1].volumeType = sdd: no such volume type; did you me",
        ),
        (
            {
                "addons": {
                    "cinderCsi": {"storageClasses": [{"name": "a", "availabilityZone": "az1"}]}
                }
            },
            "addons.cinderCsi.storageClasses[0].availabilityZone = az1: no such availability zone",
        ),
        (
            {"worker": {"volume": {"size": 2}}},
            "worker.volume.size = 2: too small: the image debian-13 requires 3 GiB",
        ),
        (
            {"externalNetwork": "publik"},
            "externalNetwork = publik: no such external network; did you mean public?",
        ),
        ({"externalNetwork": "tenant"}, "externalNetwork = tenant: is not an external network"),
        (
            {"floatingIp": "203.0.113.10"},
            "this project has no such floating IP; remove the key to get a new one. If the cluster",
        ),
        ({"dns": {"zone": "example.org"}}, "dns.zone = example.org.: the cloud has no DNS"),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest_one(raw: dict[str, Any], line: str) -> None:
    lines = told(**raw)
    assert len(lines) == 1, lines
    assert line in lines[0]


def test_a_fault_that_all_roles_share_is_reported_once() -> None:
    assert len(told(flavor="huge", image="none")) == 2


def test_an_image_must_fit_on_the_flavors_disk() -> None:
    small = replace(CLOUD, flavors=(Flavor(name="m1.medium", cores=2, memory=256, disk=2),))
    lines = told(small, workerCount=0)
    assert "has 256 MiB of RAM, and the image debian-13 requires 512" in lines[0]
    assert "choose a larger flavor, or set gateway.volume" in lines[1]


def test_a_flavor_without_a_disk_needs_a_volume() -> None:
    """Nova's own policy lets only administrators boot from the image then."""
    none = replace(CLOUD, flavors=(Flavor(name="m1.medium", cores=2, memory=4096, disk=0),))
    volume = {"volume": {"size": 20}}
    lines = told(none, gateway=volume, controlPlane=volume)
    assert len(lines) == 1
    assert lines[0].startswith("flavor = m1.medium: has no disk")
    assert told(none, gateway=volume, controlPlane=volume, worker=volume) == []
    assert len(told(none)) == 1
    # This cloud allows it.
    there = tuple(
        Server(name=f"demo-{role}-0", cores=2, memory=4096)
        for role in ("gateway", "control-plane", "worker")
    )
    assert told(replace(none, servers=there)) == []


def test_a_control_plane_must_be_as_large_as_kubeadm_requires() -> None:
    smallest = Flavor(name="tiny", cores=1, memory=1024, disk=10)
    tiny = replace(CLOUD, flavors=(*(CLOUD.flavors or ()), smallest))
    flavors = {"gateway": {"flavor": "tiny"}, "worker": {"flavor": "tiny"}}
    assert told(tiny, **flavors) == []
    cores, memory = told(tiny, **flavors, controlPlane={"flavor": "tiny"})
    assert cores.startswith("controlPlane.flavor = tiny: kubeadm requires 2 cores on a control")
    assert "1700 MiB of RAM on a control plane, and this flavor has 1024" in memory
    ignored = {"ignorePreflightErrors": ["numcpu", "Mem"]}
    assert told(tiny, flavor="tiny", kubeadm=ignored) == []


@pytest.mark.parametrize("active", [True, False])
def test_a_server_cannot_boot_from_one_of_two_images_of_a_name(active: bool) -> None:
    twice = replace(CLOUD, images=(Image(name="debian-13"), Image(name="debian-13", active=active)))
    assert "is the name of 2 images; rename all but one" in told(twice)[0]
    on_volumes = {role: {"volume": {"size": 20}} for role in ("gateway", "controlPlane", "worker")}
    assert told(twice, **on_volumes) == []


def test_an_image_must_have_been_uploaded() -> None:
    queued = replace(CLOUD, images=(Image(name="debian-13", active=False),))
    assert "is not active" in told(queued)[0]


class TestFloatingIp:
    ADDRESS = IPv4Address("203.0.113.10")

    def told(self, port: str | None) -> list[str]:
        others = (FloatingIp(address=IPv4Address("203.0.113.11")),)
        facts = replace(CLOUD, floating_ips=(FloatingIp(address=self.ADDRESS, port=port), *others))
        return told(facts, floatingIp=str(self.ADDRESS))

    def test_a_name_must_be_that_of_one_network(self) -> None:
        twice = CloudNetwork(id="9", name="public", external=True)
        networks = (*(CLOUD.networks or ()), twice)
        (line,) = told(replace(CLOUD, networks=networks))
        assert line.startswith("externalNetwork = public: is the name of 2 external networks")

    def test_a_network_of_the_same_name_is_no_matter_once_there_is_a_floating_ip(self) -> None:
        own = CloudNetwork(id="9", name="public", external=False)
        facts = replace(CLOUD, networks=(*(CLOUD.networks or ()), own))
        (line,) = told(facts)
        assert line.startswith("externalNetwork = public: is the name of 2 networks; rename")
        made = cluster().floating_ip_description
        ours = FloatingIp(address=self.ADDRESS, port="demo-vip", description=made)
        assert told(replace(facts, floating_ips=(ours,))) == []

    def test_a_free_one_is_taken(self) -> None:
        assert self.told(None) == []

    def test_the_one_of_the_key_is_kept(self) -> None:
        assert self.told("demo-vip") == []

    @pytest.mark.parametrize("port", ["demo-vip", None])
    def test_one_that_the_cluster_made_is_not_taken_for_ones_own(
        self, fresh: Run, port: str | None
    ) -> None:
        made = fresh.one("networking/floatingIp:FloatingIp", "demo-gateway").inputs["description"]
        found = FloatingIp(address=self.ADDRESS, port=port, description=made)
        (line,) = told(replace(CLOUD, floating_ips=(found,)), floatingIp=str(self.ADDRESS))
        assert "is the cluster's own, which an update would release with this key" in line

    def test_one_of_another_network_is_refused(self) -> None:
        networks = (*(CLOUD.networks or ()), CloudNetwork(id="9", name="office", external=True))
        found = FloatingIp(address=self.ADDRESS, network_id="9")
        facts = replace(CLOUD, networks=networks, floating_ips=(found,))
        (line,) = told(facts, floatingIp=str(self.ADDRESS))
        assert "is an address of office, not of externalNetwork (public)" in line
        assert told(facts, floatingIp=str(self.ADDRESS), externalNetwork="office") == []

    @pytest.mark.parametrize(
        ("port", "holder"), [("web", "the port web"), ("", "a port without a name")]
    )
    def test_one_in_use_is_refused(self, port: str, holder: str) -> None:
        line = f"is in use by {holder}; set a free one (203.0.113.11), or remove the key"
        assert line in self.told(port)[0]


class Networks:
    """Random networks within 10.0.0.0/8; SEED in the environment repeats those of a run."""

    SEED = int(os.environ.get("SEED") or time.time())
    PREFIXES = (16, 18, 20, 22, 24, 26)
    # A /26 is the smallest hostCidr.
    OURS = PREFIXES[2:]

    def __init__(self) -> None:
        # Shown if the test fails.
        print(f"SEED={self.SEED}")
        self._random = random.Random(self.SEED)

    def _network(self, prefix: int) -> IPv4Network:
        # There is room on both sides.
        start = 10 * 2**24 + self._random.randrange(2**20, 15 * 2**20)
        return IPv4Network((start, prefix), strict=False)

    def overlap(self) -> tuple[IPv4Network, IPv4Network]:
        """One that is inside the other, or the same: ours and theirs."""
        prefixes = self._random.choice(self.OURS), self._random.choice(self.PREFIXES)
        small = self._network(max(prefixes))
        ours, theirs = (small.supernet(new_prefix=prefix) for prefix in prefixes)
        return ours, theirs

    def neighbours(self) -> tuple[IPv4Network, IPv4Network]:
        """Two with no room for another of our size between them: ours and theirs."""
        theirs = self._network(self._random.choice(self.PREFIXES))
        prefix = self._random.choice(self.OURS)
        size = 2 ** (32 - prefix)
        first, last = int(theirs.network_address), int(theirs.broadcast_address)
        number = self._random.choice([first // size - 1, last // size + 1])
        return IPv4Network((number * size, prefix)), theirs


class TestOtherClusters:
    @staticmethod
    def told(host_cidr: IPv4Network, *theirs: IPv4Network, own: str = "other") -> list[str]:
        ports = tuple(
            Port(name=f"{own}{number or ''}-vip", immutable_settings={"hostCidr": str(each)})
            for number, each in enumerate(theirs)
        )
        # A port that only looks like a cluster's, and one without a name.
        ports += (Port(name="web-vip"), Port(name="", immutable_settings={"hostCidr": "by hand"}))
        keys = {"podCidr": "172.20.0.0/16", "serviceCidr": "172.21.0.0/16"}
        return told(replace(CLOUD, ports=ports), hostCidr=str(host_cidr), **keys)

    def test_each_of_a_hundred_overlaps_is_refused(self) -> None:
        networks = Networks()
        for _ in range(100):
            ours, theirs = networks.overlap()
            [line] = self.told(ours, theirs)
            problem = f"overlaps with {theirs} of the cluster other in this project; "
            assert line.startswith(f"hostCidr = {ours}: {problem}")
            # What it proposes is accepted.
            assert self.told(IPv4Network(line.split("such as ")[1]), theirs) == []

    def test_each_of_a_hundred_neighbours_is_accepted(self) -> None:
        networks = Networks()
        for _ in range(100):
            ours, theirs = networks.neighbours()
            assert self.told(ours, theirs) == [], (ours, theirs)

    def test_each_of_several_is_named(self) -> None:
        lines = self.told(
            IPv4Network("10.8.0.0/22"), IPv4Network("10.8.1.0/26"), IPv4Network("10.8.2.0/26")
        )
        assert len(lines) == 2
        assert "of the cluster other1 in" in lines[1]

    def test_a_living_cluster_is_left_alone(self) -> None:
        both = (IPv4Network("10.8.0.0/22"), IPv4Network("10.8.2.0/26"))
        assert self.told(both[0], *both, own="demo") == []

    def test_in_an_existing_network_another_part_of_its_subnet_is_asked_for(self) -> None:
        port = Port(name="other-vip", immutable_settings={"hostCidr": "10.8.0.0/24"})
        existing = {"network": "tenant", "subnet": "tenant-v4"}
        [line] = told(replace(CLOUD, ports=(port,), subnets=None), existingNetwork=existing)
        assert line.endswith("choose another part of the subnet tenant-v4")

    @pytest.mark.parametrize("key", ["podCidr", "serviceCidr"])
    def test_in_a_shared_network_pods_and_services_of_another_are_compared(self, key: str) -> None:
        settings = {"hostCidr": "172.30.0.0/24", key: "10.8.0.0/16"}
        port = Port(name="other-vip", network_id="2", immutable_settings=settings)
        facts = replace(CLOUD, ports=(port,), subnets=None)
        existing = {"network": "tenant", "subnet": "tenant-v4"}
        [line] = told(facts, existingNetwork=existing)
        assert line.startswith("existingNetwork.subnet = tenant-v4: 10.8.0.0/22 overlaps with ")
        assert f"overlaps with 10.8.0.0/16, the {key} of the cluster other in the same" in line
        # In a network of its own, the other one's pods have nothing to do with us.
        assert told(facts) == []


def answering(monkeypatch: pytest.MonkeyPatch, **token: object) -> MagicMock:
    """Make a cloud answer every question of `query`, and a login with this token."""
    connection = MagicMock()
    connection.image.images.return_value = []
    state = json.dumps({"body": {"token": token}})
    connection.session.auth.get_auth_state.return_value = state
    # The package has a function of the module's name.
    monkeypatch.setattr(import_module("cloud.query"), "connect", lambda _: connection)
    return connection


def test_a_restricted_credential_is_refused_before_a_server_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, application_credential={"id": "1", "restricted": True})
    login = CloudLogin(key="openstack:cloud", value="mine", settings={})
    facts = replace(CLOUD, restricted_login=query(login, cluster(), warn=print).restricted_login)
    [line] = told(facts)
    assert line.startswith("openstack:cloud: its application credential is restricted")
    no_login = {"cloudControllerManager": {"enabled": False}, "cinderCsi": {"enabled": False}}
    assert told(facts, addons=no_login) == []
    # A running cluster has its credential.
    running = replace(facts, ports=LIVING)
    assert told(running) == []
    assert any("restricted" in line for line in warnings(cluster(), running))
    answering(monkeypatch, application_credential={"id": "1", "restricted": False})
    assert query(login, cluster(), warn=print).restricted_login is None


def test_a_region_without_services_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoints = [{"region": region} for region in ("west", "east", "east")]
    connection = answering(monkeypatch, catalog=[{"endpoints": endpoints}])
    connection.has_service.side_effect = lambda name: name == "image"
    connection.config.get_region_name.return_value = "est"
    connection.config.get_interface.return_value = "public"
    with pytest.raises(ConfigError) as refused:
        query(MagicMock(), cluster(), warn=print)
    assert (
        "openstack:region = est: the cloud has no compute or network service of the endpoint type "
        "public there; its regions are east, west"
    ) in str(refused.value)


def test_one_refusal_costs_no_other_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of another stack's cluster of the same name, by its servers."""
    connection = answering(monkeypatch)
    server = SimpleNamespace(
        name="demo-worker-0", id="1", status="ERROR", fault={"message": None},
        flavor=SimpleNamespace(vcpus=2, ram=4096), metadata={"cluster": "demo-1a2b3c4d"},
    )  # fmt: skip
    connection.compute.servers.return_value = [server]
    connection.compute.get_limits.side_effect = ForbiddenException("not allowed")
    warned: list[str] = []
    facts = query(MagicMock(), cluster(), warn=warned.append)
    assert clusters.of_this_name(cluster(), facts) == {"demo-1a2b3c4d"}
    [warning] = warned
    assert warning.startswith("cloud checks: compute quota: not checked, because the cloud did ")
    (broken,) = (line for line in warnings(cluster(), facts) if "is in ERROR" in line)
    assert "Nova does not say why" in broken


def test_a_cluster_whose_ports_are_not_told_is_not_taken_for_a_new_one() -> None:
    """A subnet that came later overlaps with its pods, which cannot be helped any more."""
    later = Subnet(id="l", name="later", network_id="2", cidr=IPv4Network("10.244.8.0/24"))
    subnet = Subnet(id="s", name="tenant-v4", network_id="2", cidr=IPv4Network("192.168.0.0/24"))
    facts = replace(CLOUD, subnets=(subnet, later))
    keys = {
        "hostCidr": "192.168.0.0/26",
        "existingNetwork": {"network": "tenant", "subnet": "tenant-v4"},
    }
    assert told(facts, **keys)
    assert told(replace(facts, ports=None), **keys) == []


def test_a_cluster_of_the_same_name_is_known_by_the_mark_of_its_servers() -> None:
    marks = ("demo-1a2b3c4d", "demo-1a2b3c4d", "demo-eu-1a2b3c4d", "")
    servers = tuple(
        Server(name="demo-worker-0", cores=2, memory=4096, cluster_id=mark) for mark in marks
    )
    assert clusters.of_this_name(cluster(), replace(CLOUD, servers=servers)) == {"demo-1a2b3c4d"}


@pytest.mark.parametrize("error", [ForbiddenException("no answer"), ConnectTimeout("no answer")])
def test_a_cloud_that_does_not_list_ports_is_told_and_the_rest_is_checked(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    connection = answering(monkeypatch)
    connection.network.ports.side_effect = error
    warned: list[str] = []
    facts = query(MagicMock(), cluster(), warn=warned.append)
    assert any(
        line.startswith(
            "cloud checks: ports, and the hostCidr of other clusters: not checked, because the "
        )
        for line in warned
    )
    assert facts.ports is None
    assert "image = debian-13: no such image" in "\n".join(map(str, faults(cluster(), facts)))


@pytest.mark.parametrize(
    ("service", "call", "quotas"),
    [
        ("network", "networks", {"networks", "ports"}),
        ("network", "routers", {"routers"}),
        ("network", "security_groups", {"securityGroups", "securityGroupRules"}),
        ("network", "ports", {"ports", "floatingIps"}),
        ("compute", "server_groups", {"serverGroups"}),
        ("compute", "servers", {"instances", "cores", "memory", "volumes", "gigabytes"}),
        ("block_storage", "volumes", {"volumes", "gigabytes"}),
    ],
)
def test_a_quota_tells_nothing_without_what_the_cluster_has_of_it(
    monkeypatch: pytest.MonkeyPatch, service: str, call: str, quotas: set[str]
) -> None:
    connection = answering(monkeypatch)

    def limits() -> set[str]:
        return set(query(MagicMock(), cluster(), warn=lambda _: None).limits)

    assert quotas <= limits()
    getattr(getattr(connection, service), call).side_effect = ForbiddenException("not allowed")
    assert not quotas & limits()
    assert ({"instances", "volumes"} - quotas) <= limits()


# The port of a running cluster's VIP.
LIVING = (Port(name="demo-vip"),)


class TestALivingCluster:
    @staticmethod
    def told(**keys: object) -> list[str]:
        made_with = {"podCidr": "10.244.0.0/16", "serviceCidr": "10.96.0.0/16"}
        port = Port(name="demo-vip", immutable_settings=immutable.read(immutable.write(made_with)))
        return told(replace(CLOUD, ports=(port,)), **keys)

    def test_it_keeps_its_networks(self) -> None:
        assert self.told() == []

    def test_another_pod_network_is_refused(self) -> None:
        [line] = self.told(podCidr="10.128.0.0/16")
        assert line.startswith("podCidr = 10.128.0.0/16: the cluster was created with 10.244")

    def test_another_user_is_refused(self) -> None:
        made_with = cluster().immutable_settings
        port = Port(name="demo-vip", immutable_settings=immutable.read(immutable.write(made_with)))
        [line] = told(replace(CLOUD, ports=(port,)), sshUser="ubuntu")
        assert line.startswith("sshUser = ubuntu: the cluster was created with debian")

    def test_it_does_not_move_to_another_network(self) -> None:
        networks = (*(CLOUD.networks or ()), CloudNetwork(id="3", name="demo"))

        def made_in(network: str, **keys: object) -> str:
            port = Port(name="demo-vip", network_id=network)
            return "\n".join(told(replace(CLOUD, networks=networks, ports=(port,)), **keys))

        existing = {"network": "tenant", "subnet": "tenant-v4"}
        assert made_in("3") == ""
        assert "network: the cluster was created in the network tenant" in made_in("2")
        words = "network = tenant: the cluster was created in the network demo"
        assert words in made_in("3", existingNetwork=existing)
        assert "was created in" not in made_in("2", existingNetwork=existing)

    def test_its_router_does_not_leave_the_network_of_its_floating_ip(self) -> None:
        address = IPv4Address("203.0.113.10")
        facts = replace(
            CLOUD,
            networks=(
                *(CLOUD.networks or ()),
                CloudNetwork(id="3", name="office", external=True),
            ),
            subnets=None,
            floating_ips=(FloatingIp(address=address, port="demo-vip", network_id="1"),),
        )
        assert told(facts) == []
        [line] = told(facts, externalNetwork="office")
        assert line.startswith("externalNetwork = office: the cluster's floating IP is of public")
        existing = {"network": "tenant", "subnet": "tenant-v4"}
        assert told(facts, externalNetwork="office", existingNetwork=existing) == []

    def test_the_volume_of_etcd_is_not_deleted(self) -> None:
        left = replace(CLOUD, volumes={"demo-control-plane-2-etcd": 10})
        assert told(left) == []
        facts = replace(left, ports=LIVING)
        [line] = told(facts)
        assert line.startswith(
            "controlPlane.etcdVolume: etcd's data is on the volume demo-control-plane-2-etcd"
        )
        assert told(facts, controlPlane={"etcdVolume": {"size": 10}}) == []
        assert told(facts, controlPlaneCount=1) == []

    @pytest.mark.parametrize("size", [5, 20])
    def test_a_volume_that_etcd_runs_on_keeps_its_size(self, size: int) -> None:
        volumes = {f"demo-control-plane-{i}-etcd": 10 for i in range(3)}
        facts = replace(CLOUD, ports=LIVING, volumes=volumes)
        [line] = told(facts, controlPlane={"etcdVolume": {"size": size}})
        assert line.startswith(
            f"controlPlane.etcdVolume.size = {size}: the volume demo-control-plane-0-etcd has "
            "10 GiB"
        )
        assert "set 10, or see 'A larger volume for etcd' in docs/operations.md" in line
        assert runbook("A larger volume for etcd")

    def test_a_volume_that_etcd_runs_on_keeps_its_type_until_someone_changes_it(self) -> None:
        first, second = (f"demo-control-plane-{i}-etcd" for i in range(2))
        facts = replace(
            CLOUD,
            ports=LIVING,
            volumes={first: 10, second: 10},
            types_of_volumes={first: "hdd", second: "hdd"},
        )
        faster = {"controlPlane": {"etcdVolume": {"size": 10, "type": "ssd"}}}
        [line] = told(facts, **faster)
        assert line.startswith(
            f"controlPlane.etcdVolume.type = ssd: the volume {first} is of the type hdd"
        )
        assert told(replace(facts, types_of_volumes={first: "ssd", second: "hdd"}), **faster) == []
        assert told(facts, controlPlane={"etcdVolume": {"size": 10}}) == []

    def test_volumes_may_be_enlarged_one_by_one(self) -> None:
        facts = replace(
            CLOUD,
            ports=LIVING,
            volumes={"demo-control-plane-0-etcd": 20, "demo-control-plane-1-etcd": 10},
        )
        for size in (10, 20):
            assert told(facts, controlPlane={"etcdVolume": {"size": size}}) == []

    def test_a_setting_that_it_did_not_record_may_be_anything(self) -> None:
        port = Port(name="demo-vip", immutable_settings=immutable.read("by a = hand"))
        assert told(replace(CLOUD, ports=(port,)), podCidr="10.128.0.0/16") == []


class TestExistingNetwork:
    def told(
        self,
        facts: Mapping[str, Any] | None = None,
        host_cidr: str = "192.168.0.0/26",
        **subnet: object,
    ) -> list[str]:
        known: Mapping[str, Any] = {
            "id": "s",
            "name": "tenant-v4",
            "network_id": "2",
            "cidr": IPv4Network("192.168.0.0/24"),
            "router": IPv4Address("192.168.0.1"),
            "pools": ((IPv4Address("192.168.0.64"), IPv4Address("192.168.0.254")),),
        }
        taken = Port(name="nas", addresses=frozenset({IPv4Address("192.168.0.74")}), network_id="2")
        cloud = replace(CLOUD, subnets=(Subnet(**{**known, **subnet}),), ports=(taken,))
        cloud = replace(cloud, **(facts or {}))
        existing = {"network": "tenant", "subnet": "tenant-v4"}
        return told(cloud, hostCidr=host_cidr, existingNetwork=existing)

    def test_addresses_outside_of_the_allocation_pools_are_accepted(self) -> None:
        assert self.told() == []

    def test_a_subnet_without_a_router_to_the_floating_ips_is_refused(self) -> None:
        networks = (*(CLOUD.networks or ()), CloudNetwork(id="9", name="office", external=True))
        leads_to = {"inside": None, "public": "1", "office": "9"}
        routers = tuple(
            Router(id=name, name=name, external_network_id=to) for name, to in leads_to.items()
        )
        facts: dict[str, Any] = {"networks": networks, "routers": routers}

        def told(*connected: str) -> list[str]:
            return self.told({**facts, "router_interfaces": {"s": frozenset(connected)}})

        for wrong in ([], ["inside"]):
            [line] = told(*wrong)
            assert line.startswith(
                "existingNetwork.subnet = tenant-v4: has no router to public, so"
            )
        [line] = told("office")
        assert "has no router to public, only to office, so no floating IP" in line
        for right in ({"public"}, {"office", "public"}, {"that of another project"}):
            assert told(*right) == []
        assert len(self.told({**facts, "router_interfaces": {}})) == 1
        assert self.told({**facts, "router_interfaces": None}) == []

    def test_a_network_without_port_security_is_refused(self) -> None:
        network = CloudNetwork(id="2", name="tenant", port_security=False)
        [line] = self.told({"networks": (*(CLOUD.networks or ())[:1], network)})
        assert line.startswith("existingNetwork.network = tenant: has no port security")

    def test_the_machines_must_be_in_the_subnet(self) -> None:
        assert (
            "must lie in the subnet tenant-v4, which is 192.168.0.0/24"
            in self.told(host_cidr="192.168.1.0/26")[0]
        )

    def test_an_address_in_an_allocation_pool_is_refused(self) -> None:
        lines = self.told(host_cidr="192.168.0.128/26")
        assert "the allocation pool 192.168.0.64-192.168.0.254 of tenant-v4 overlaps" in lines[0]

    def test_an_address_in_use_is_refused(self) -> None:
        lines = self.told(host_cidr="192.168.0.64/26", pools=())
        assert "192.168.0.74 would be the address of demo-vip, but nas has it" in lines[0]

    def test_the_routers_address_is_refused(self) -> None:
        lines = self.told(router=IPv4Address("192.168.0.10"))
        assert "the address of demo-vip, but the subnet's router has it" in lines[0]

    def test_names_are_checked(self) -> None:
        lines = told(existingNetwork={"network": "tennant", "subnet": "x"})
        assert "existingNetwork.network = tennant: no such network; did you mean tenant?" in lines

    def test_pods_and_services_must_not_have_addresses_of_its_machines(self) -> None:
        wide: dict[str, Any] = {"cidr": IPv4Network("10.96.0.0/11"), "pools": (), "router": None}
        (line,) = self.told(host_cidr="10.97.0.0/26", **wide)
        assert line.startswith("serviceCidr = 10.96.0.0/16: overlaps the subnet tenant-v4")
        (line,) = self.told(
            host_cidr="10.240.0.0/26", **{**wide, "cidr": IPv4Network("10.240.0.0/12")}
        )
        assert line.startswith("podCidr = 10.244.0.0/16: overlaps the subnet tenant-v4")

    def test_nor_those_of_another_subnet_of_its_network(self) -> None:
        cidrs = {"tenant-v4": "192.168.0.0/24", "tenant-b": "10.244.8.0/24"}
        subnets = tuple(
            Subnet(id=name, name=name, network_id="2", cidr=IPv4Network(cidr))
            for name, cidr in cidrs.items()
        )
        existing = {"network": "tenant", "subnet": "tenant-v4"}
        facts = replace(CLOUD, subnets=subnets)
        [line] = told(facts, hostCidr="192.168.0.0/26", existingNetwork=existing)
        assert line.startswith("podCidr = 10.244.0.0/16: overlaps the subnet tenant-b")
        # A running cluster cannot help it.
        running = replace(facts, ports=(Port(name="demo-vip"),))
        assert told(running, hostCidr="192.168.0.0/26", existingNetwork=existing) == []


def test_a_cloud_without_cinder_or_octavia_says_what_to_switch_off() -> None:
    bare = replace(CLOUD, services=frozenset(), volume_types=None)
    lines = told(bare, gateway={"volume": {"size": 20}}, addons={"loadBalancer": "octavia"})
    assert [line.split(" = ")[0] for line in lines] == [
        "gateway.volume",
        "addons.cinderCsi.enabled",
        "addons.loadBalancer",
    ]


class TestQuotas:
    # The cluster: 2 gateways, 3 control planes, 2 workers, each of 2 cores and 4096 MiB.
    def told(self, limits: dict[str, tuple[int, int]], **more: Any) -> list[str]:
        known = {name: Limit(limit=limit, used=used) for name, (limit, used) in limits.items()}
        servers = more.pop("servers", ())
        return told(replace(CLOUD, limits=known, servers=servers), **more)

    def there(self, *names: str) -> tuple[Server, ...]:
        return tuple(Server(name=name, cores=2, memory=4096) for name in names)

    def test_everything_that_is_free_may_be_used(self) -> None:
        assert self.told({"instances": (10, 3), "cores": (14, 0), "memory": (28672, 0)}) == []

    def test_no_limit_is_no_limit(self) -> None:
        assert self.told({"instances": (UNLIMITED, 100)}) == []

    def test_one_instance_too_many_is_refused_with_the_numbers(self) -> None:
        (line,) = self.told({"instances": (10, 4)})
        assert line == (
            "gatewayCount=2, controlPlaneCount=3, workerCount=2: the quota for instances is too "
            "small: "
            "7 more needed, 6 of 10 free; ask for a larger quota, or set fewer machines"
        )

    @pytest.mark.parametrize("name", ["cores", "memory", "ports", "floatingIps", "routers"])
    def test_each_quota_counts(self, name: str) -> None:
        assert len(self.told({name: (1, 1)})) == 1

    def test_machines_that_exist_are_not_counted_again(self) -> None:
        control_planes = self.there(
            "demo-control-plane-0", "demo-control-plane-1", "demo-control-plane-2"
        )
        more = {"servers": (*control_planes, *self.there("demo-gateway-0", "demo-gateway-1"))}
        assert self.told({"instances": (7, 5), "cores": (14, 10)}, **more) == []
        assert len(self.told({"instances": (7, 5)}, workerCount=3, **more)) == 1

    def test_machines_of_other_clusters_do_not_count_as_ours(self) -> None:
        others = self.there("demo-control-plane-9", "demo-2-control-plane-0")
        assert len(self.told({"instances": (8, 2)}, servers=others)) == 1

    def test_a_larger_flavor_takes_the_difference(self) -> None:
        names = [
            f"demo-{role}-{i}" for role in ("gateway", "control-plane", "worker") for i in range(3)
        ]
        small = tuple(Server(name=name, cores=1, memory=2048) for name in names)
        assert needs(cluster(), replace(CLOUD, servers=small))["cores"] == 7

    def test_volumes_are_counted_with_their_sizes(self) -> None:
        got = needs(
            cluster(controlPlane={"volume": {"size": 20}, "etcdVolume": {"size": 10}}),
            replace(
                CLOUD,
                servers=(Server(name="demo-control-plane-0", id="s", cores=2, memory=4096),),
                boot_volumes={"s": 20},
                volumes={"demo-control-plane-0-etcd": 10},
            ),
        )
        assert (got["volumes"], got["gigabytes"]) == (4, 60)

    def test_new_boot_volumes_of_servers_that_exist_are_counted(self) -> None:
        one, other = (
            Server(name=f"demo-worker-{i}", id=str(i), cores=2, memory=4096) for i in range(2)
        )
        facts = replace(CLOUD, servers=(one, other), boot_volumes={"0": 20})
        got = needs(cluster(worker={"volume": {"size": 50}}), facts)
        # The first one grows, the second one booted from its flavor's disk.
        assert (got["volumes"], got["gigabytes"]) == (1, 80)

    def test_security_groups_are_counted_with_their_rules(self) -> None:
        pool = {"name": "metal", "machines": [MACHINE]}
        metal = cluster(workerPools=[pool], addons={"monitoring": {"enabled": True}})
        got = needs(metal, CLOUD)
        # Neutron adds two rules for outgoing traffic to each group.
        assert got["securityGroups"] == 4
        assert got["securityGroupRules"] == len(rules(metal)) + 8

    def test_a_cluster_that_is_complete_needs_nothing(self) -> None:
        servers = [f"demo-{role}-{i}" for role, n in ROLES.items() for i in range(n)]
        facts = replace(
            CLOUD,
            servers=self.there(*servers),
            ports=tuple(Port(name=name) for name in (*servers, "demo-vip")),
            networks=(*(CLOUD.networks or ()), CloudNetwork(id="3", name="demo")),
            routers=(Router(id="r", name="demo"),),
            floating_ips=(FloatingIp(address=IPv4Address("203.0.113.10"), port="demo-vip"),),
            security_groups={
                f"demo-{g}": 99 for g in ("gateway", "node", "control-plane", "worker")
            },
            server_groups=frozenset({"demo-gateway", "demo-control-plane", "demo-worker"}),
        )
        assert {name: n for name, n in needs(cluster(), facts).items() if n} == {}

    def test_a_floating_ip_that_points_at_nothing_yet_is_the_clusters_own(self, fresh: Run) -> None:
        # As an update leaves it that failed before the VIP's port was there.
        address = fresh.one("networking/floatingIp:FloatingIp", "demo-gateway")
        own = FloatingIp(
            address=IPv4Address("203.0.113.10"), description=address.inputs["description"]
        )
        other = replace(own, description="")
        for floating_ip, more in ((own, 0), (other, 1)):
            facts = replace(CLOUD, floating_ips=(floating_ip,))
            assert needs(cluster(), facts)["floatingIps"] == more

    def test_a_pool_must_fit_into_its_server_group(self) -> None:
        (line,) = self.told({"serverGroupMembers": (10, 0)}, workerCount=11)
        assert line.startswith("workerCount = 11: a server group may have 10 members")


def test_the_volumes_that_servers_boot_from_are_known_by_the_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def volume(server_id: str, *, bootable: bool) -> SimpleNamespace:
        attachments = [{"server_id": server_id}] if server_id else []
        return SimpleNamespace(
            name="", size=20, volume_type="ssd", is_bootable=bootable, attachments=attachments,
            status="in-use",
        )  # fmt: skip

    connection = answering(monkeypatch)
    connection.block_storage.volumes.return_value = [
        volume("s", bootable=True),
        volume("s", bootable=False),
        volume("", bootable=True),
    ]
    assert query(MagicMock(), cluster(), warn=lambda _: None).boot_volumes == {"s": 20}


class TestUnavailableZones:
    """Nova calls a zone unavailable when all of its hypervisors are disabled."""

    def test_one_that_is_used_is_named_and_stops_nothing(self) -> None:
        facts = replace(CLOUD, unavailable_zones=frozenset({"az-1", "az-2"}))
        used = {"worker": {"availabilityZones": ["az-1"]}}
        (line,) = warnings(cluster(**used), facts)
        assert line.startswith("the availability zone az-1 is not available: ")
        assert told(facts, **used) == []

    def test_nova_is_asked_for_all_of_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        connection = answering(monkeypatch)
        connection.compute.availability_zones.return_value = [
            SimpleNamespace(name=name, state={"available": name == "az-1"})
            for name in ("az-1", "az-2")
        ]
        facts = query(MagicMock(), cluster(), warn=lambda _: None)
        assert facts.zones == frozenset({"az-1", "az-2"})
        assert facts.unavailable_zones == {"az-2"}


def test_an_etcd_volume_without_zones_is_warned_about_where_there_are_several() -> None:
    def said(**control_plane: object) -> list[str]:
        etcd_volume = {"etcdVolume": {"size": 20}, **control_plane}
        return list(warnings(cluster(controlPlane=etcd_volume), CLOUD))

    (line,) = said()
    assert line.startswith("controlPlane.etcdVolume: the cloud chooses the zones of servers and")
    assert said(availabilityZones=["az-1"]) == []


def test_a_new_subnet_without_name_servers_is_warned_about_before_it_is_made() -> None:
    def said(facts: Facts = CLOUD, **more: object) -> list[str]:
        return list(warnings(cluster(**{"dnsNameservers": [], **more}), facts))

    (line,) = said()
    assert line.startswith("dnsNameservers is not set: ")
    assert said(dnsNameservers=["192.0.2.53"]) == []
    assert said(existingNetwork={"network": "tenant", "subnet": "tenant"}) == []
    vip = Port(name=cluster().vip_name)
    assert said(replace(CLOUD, ports=(vip,))) == []


class TestBrokenServers:
    """A server that Nova could not create stays in the state, and an update does not repair it."""

    def told(self, *servers: Server) -> list[str]:
        return list(warnings(cluster(), replace(CLOUD, servers=servers)))

    def test_it_is_named_with_novas_reason_and_the_command_that_replaces_it(self) -> None:
        (told,) = self.told(
            Server(name="demo-worker-0", cores=2, memory=4096),
            Server(name="demo-worker-1", cores=2, memory=4096, error="No valid host was found."),
        )
        assert "demo-worker-1 is in ERROR: No valid host was found." in told
        assert told.endswith("pulumi up --replace '**:Instance::demo-worker-1'")

    def test_where_each_needs_a_hypervisor_of_its_own_the_key_is_named_too(self) -> None:
        error = "No valid host was found."
        server = Server(name="demo-gateway-1", cores=2, memory=4096, error=error)
        _, told = self.told(server)
        assert told.startswith("gateway.serverGroupPolicy = anti-affinity: ")
        soft = cluster(gateway={"serverGroupPolicy": "soft-anti-affinity"})
        assert len(list(warnings(soft, replace(CLOUD, servers=(server,))))) == 1
        assert len(self.told(replace(server, error="another reason"))) == 1

    def test_nova_may_not_say_why(self) -> None:
        (told,) = self.told(Server(name="demo-control-plane-0", cores=2, memory=4096, error=""))
        assert "Nova does not say why" in told

    def test_one_that_is_being_removed_is_not_mentioned(self) -> None:
        assert self.told(Server(name="demo-worker-9", cores=2, memory=4096, error="x")) == []

    def test_a_volume_of_etcd_that_cinder_could_not_make_is_named(self) -> None:
        broken = frozenset({"demo-control-plane-0-etcd", "of-others"})
        (told,) = warnings(cluster(), replace(CLOUD, volumes_in_error=broken))
        assert "openstack volume delete demo-control-plane-0-etcd, then pulumi up --refresh" in told

    def test_it_does_not_stop_the_run_that_replaces_it(self) -> None:
        broken = Server(name="demo-worker-1", cores=2, memory=4096, error="x")
        assert told(replace(CLOUD, servers=(broken,))) == []
