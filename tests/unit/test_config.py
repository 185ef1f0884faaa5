"""The faults that a user is told about a configuration, and the defaults."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Any, ClassVar

import pulumi
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, PrivateFormat

from config.errors import ConfigError
from config.kubernetes_version import version_change_faults
from config.load import PROJECT, cluster_of_stack, load, secrets_of_stack
from config.rules import warnings
from config.values import schedule
from tests.unit.clusters import LEAST, cluster
from tests.unit.ssh_keys import new_key, public_of, text, with_passphrase

MACHINE = {"name": "rack-1", "address": "192.0.2.11", "hostKey": "ssh-ed25519 AAAA"}
TAINT = {"key": "gpu", "effect": "NoSchedule"}
SSH_KEY = text(new_key())
PKCS8, TraditionalOpenSSL = PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL
BY_PRIORITY = {
    "shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 10}]
}


def metal(address: str) -> dict[str, Any]:
    """A pool of one machine that exists already."""
    return {"name": "metal", "machines": [{**MACHINE, "address": address}]}


def scheduled(schedule: str) -> dict[str, Any]:
    """Add-ons with a schedule of volume snapshots."""
    return {"addons": {"snapshots": {"schedules": [{"name": "night", "schedule": schedule}]}}}


def told(stack: str = "demo", **more: object) -> list[str]:
    """The lines a user sees for these keys; a value of None leaves a key out."""
    raw = {key: value for key, value in {**LEAST, **more}.items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        load(raw, stack)
    return str(caught.value).replace("  ", "").splitlines()[1:]


def test_the_least_configuration_is_a_highly_available_cluster() -> None:
    got = cluster()
    assert (got.control_plane_count, got.gateway_count, got.worker_count) == (3, 2, 2)
    assert got.cluster_name == "demo"
    assert got.encryption_at_rest
    assert got.audit_log.enabled
    assert got.addons.cni.kind == "cilium"
    assert got.ingress_sources == got.allowed_cidrs == (IPv4Network("203.0.113.0/24"),)
    assert [pool.name for pool in got.pools] == ["worker"]
    assert got.pools[0].servers.flavor == got.gateway_servers.flavor == "m1.medium"


def test_values_may_have_the_types_that_the_engine_stores() -> None:
    got = cluster(controlPlaneCount="5", encryptionAtRest="false", worker={"labels": {"gpu": True}})
    assert (got.control_plane_count, got.encryption_at_rest) == (5, False)
    assert got.pools[0].labels == {"gpu": "true"}


def test_an_empty_value_counts_as_not_set() -> None:
    assert cluster(clusterName="", floatingIp="", dns={}, ingressCidrs=[]) == cluster()


def test_a_role_has_its_own_settings_before_the_common_ones() -> None:
    got = cluster(
        controlPlane={"flavor": "large", "availabilityZones": ["a", "b"]},
        workerPools=[{"name": "gpu", "count": 1, "image": "gpu-image"}],
    )
    assert got.control_plane_servers.flavor == "large"
    assert got.control_plane_servers.image == "debian-13"
    assert [got.control_plane_servers.availability_zone(i) for i in range(3)] == ["a", "b", "a"]
    assert got.gateway_servers.availability_zone(0) is None
    assert got.pools[1].servers.image == "gpu-image"


def test_the_configuration_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(cluster(), "control_plane_count", 1)  # noqa: B010 - mypy refuses the assignment too


def test_a_pool_can_have_a_role() -> None:
    labels = {"node-role.kubernetes.io/gpu": ""}
    assert cluster(worker={"labels": labels}).pools[0].labels == labels


def test_an_audit_policy_gets_the_type_that_the_api_server_looks_for() -> None:
    rules = [{"level": "Metadata"}]
    whole = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    for policy in ({"rules": rules}, whole):
        assert cluster(auditLog={"policy": policy}).audit_log.policy == whole


@pytest.mark.parametrize("database", [{"Europe/Berlin", "UTC"}, set()])
def test_a_time_zone_is_checked_where_there_is_a_database(
    database: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "available_timezones", lambda: database)

    def zone(name: str) -> str:
        return cluster(addons={"kured": {"timeZone": name}}).addons.kured.time_zone

    assert zone("Europe/Berlin") == "Europe/Berlin"
    if database:
        with pytest.raises(
            ConfigError, match=r"kured\.timeZone = Berlin: must be a name of the time"
        ):
            zone("Berlin")
    else:
        assert zone("Berlin") == "Berlin"


def test_only_a_person_knows_the_zone_of_a_machine_that_exists_already() -> None:
    labels = {"topology.kubernetes.io/zone": "rack", "node.kubernetes.io/instance-type": "metal"}
    pools = [{"name": "metal", "machines": [MACHINE], "labels": labels}]
    assert cluster(workerPools=pools).pools[1].labels == labels


@pytest.mark.parametrize(
    ("raw", "warned"),
    [
        ({}, []),
        ({"hostCidr": "100.64.0.0/22"}, []),
        ({"hostCidr": "20.0.0.0/22"}, ["hostCidr = 20.0.0.0/22: these are public addresses"]),
        (
            {"podCidr": "172.0.0.0/8", "serviceCidr": "30.0.0.0/16"},
            ["podCidr = 172.0.0.0/8: these", "serviceCidr = 30.0.0.0/16: these"],
        ),
        ({"sshUser": "root"}, ["sshUser = root: cloud-init lets no one log in as root"]),
        (
            {"dnsNameservers": "9.9.9.9", "existingNetwork": {"network": "a", "subnet": "b"}},
            ["dnsNameservers = 9.9.9.9: the subnet of existingNetwork has its own"],
        ),
    ],
)
def test_what_is_probably_not_meant_is_only_warned_of(
    raw: dict[str, Any], warned: list[str]
) -> None:
    lines = list(warnings(cluster(**raw)))
    assert len(lines) == len(warned)
    assert all(line.startswith(start) for line, start in zip(lines, warned, strict=True))


@pytest.mark.parametrize(("size", "room"), [(9, None), (8, "3.5 GiB"), (5, "2 GiB")])
def test_an_etcd_volume_with_too_little_room_for_snapshots_is_warned_of(
    size: int, room: str | None
) -> None:
    warned = list(warnings(cluster(controlPlane={"etcdVolume": {"size": size}})))
    assert len(warned) == (room is not None)
    assert room is None or f"has more than {room}, snapshots fail" in warned[0]


def test_every_fault_is_reported_at_once() -> None:
    lines = told(
        controlPlaneCount=2,
        allowedCidrs=None,
        hostCidr="10.244.0.0/24",
        podCidr="10.244.0.0/16",
        etcd={"heartbeatInterval": 2000},
        workerPools=[{"name": "GPU"}],
        workerCont=3,
    )
    assert {line.split(" ")[0].rstrip(":") for line in lines} == {
        "controlPlaneCount",
        "allowedCidrs",
        "hostCidr",
        "etcd.electionTimeout",
        "workerPools[0].name",
        "workerCont",
    }


def test_a_count_beyond_every_limit_hides_no_other_fault() -> None:
    lines = told(workerCount="9" * 30, controlPlaneCount=2)
    assert [line.split(" ")[0] for line in lines] == ["controlPlaneCount", "workerCount"]


def test_a_rule_waits_for_every_key_that_it_reads() -> None:
    lines = told(hostCidr="10.8.0.0/26", workerCount=60, existingNetwork={"network": "tenant"})
    assert [line.split(":")[0] for line in lines] == ["existingNetwork.subnet"]


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ({"externalNetwork": None}, 'externalNetwork: must be set, such as "public": Name of the'),
        ({"allowedCidrs": []}, "allowedCidrs: must be set"),
        ({"controlPlaneCount": 4}, "controlPlaneCount = 4: must be 1, 3 or 5"),
        ({"gatewayCount": 0}, "gatewayCount = 0: must be greater than or equal to 1"),
        ({"gatewayCount": 5}, "gatewayCount = 5: must be less than or equal to 4"),
        ({"workerCount": 5001}, "workerCount = 5001: must be less than or equal to 5000"),
        ({"workerCount": "two"}, "workerCount = two: must be a valid integer"),
        ({"kubernetesVersion": "1.36.3"}, "kubernetesVersion = 1.36.3: must be a complete version"),
        ({"kubernetesVersion": "v1.36.03"}, "v1.36.03: must be a complete version"),
        ({"kubernetesVersion": "v1.33.0"}, "supported are 1.35, 1.36, 1.37"),
        (
            {"packageMirrors": {"kubernetes": "https://me:s3cret@mirror.example.org/k8s"}},
            "packageMirrors.kubernetes = https://me:***@mirror.example.org/k8s: must not contain",
        ),
        ({"flavor": None}, "flavor: must be set, or each of gateway.flavor, controlPlane"),
        ({"clusterName": "Demo"}, "clusterName = Demo: must be a DNS label"),
        ({"sshUser": "my user"}, "sshUser = my user: must be a Linux user name"),
        ({"floatingIp": "203.0.113"}, "floatingIp = 203.0.113: must be an IPv4 address"),
        ({"floatingIp": 5}, "floatingIp = 5: must be an IPv4 address"),
        ({"podCidr": 5}, "podCidr = 5: must be an IPv4 network"),
        ({"dnsNameservers": ["dns"]}, "dnsNameservers[0] = dns: must be an IPv4 address"),
        ({"hostCidr": "10.8.0.7/24"}, "has host bits set; the network is 10.8.0.0/24"),
        ({"hostCidr": "10.8.0.0/27"}, "hostCidr = 10.8.0.0/27: too small; use a /26 or larger"),
        (
            {"hostCidr": "169.254.0.0/20"},
            "has loopback, link-local or multicast addresses",
        ),
        (
            {"hostCidr": "10.8.0.0/26", "workerCount": 60},
            "has room for 28 workers, but 60 are configured; use a /25",
        ),
        ({"podCidr": "10.96.0.0/12"}, "podCidr = 10.96.0.0/12: overlaps serviceCidr"),
        ({"hostCidr": "10.96.8.0/24"}, "hostCidr = 10.96.8.0/24: overlaps serviceCidr"),
        ({"serviceCidr": "10.96.0.0/28"}, "must be between a /12 and a /24"),
        (
            {"podCidr": "12.0.0.0/6", "hostCidr": "192.168.0.0/22", "serviceCidr": "172.16.0.0/16"},
            "podCidr = 12.0.0.0/6: too large; use a /8 or smaller",
        ),
        ({"hostCidr": "126.0.0.0/7"}, "hostCidr = 126.0.0.0/7: has loopback, link-local"),
        ({"dnsNameservers": ["9.9.9.9", "9.9.9.9"]}, "dnsNameservers[1] = 9.9.9.9: is there twice"),
        (
            {"worker": {"taints": [{**TAINT, "value": "x"}, {**TAINT, "value": "y"}]}},
            "worker.taints[1] = gpu=y:NoSchedule: a node has each key and effect once",
        ),
        (
            {"workerPools": [metal("10.244.3.4")]},
            ".address = 10.244.3.4: is in podCidr (10.244.0.0",
        ),
        ({"workerPools": [metal("10.96.0.1")]}, ".address = 10.96.0.1: is in serviceCidr (10.96.0"),
        ({"workerPools": [metal("127.0.0.1")]}, ".address = 127.0.0.1: is no address of a machine"),
        ({"workerPools": [metal("0.0.0.0")]}, ".address = 0.0.0.0: is no address of a machine"),
        ({"workerPools": [metal("10.8.3.255")]}, ".address = 10.8.3.255: is no address of a mach"),
        (
            {"workerPools": [metal("203.0.113.9")], "floatingIp": "203.0.113.9"},
            ".address = 203.0.113.9: is no address of a machine",
        ),
        (
            {"dnsNameservers": ["192.0.2.1", "10.96.0.53"]},
            "dnsNameservers[1] = 10.96.0.53: is in serviceCidr (10.96.0.0/16): no node reaches it",
        ),
        (
            {"kubelet": {"extraConfig": {"shutdownGracePeriodCriticalPods": "500ms"}}},
            "kubelet.extraConfig.shutdownGracePeriodCriticalPods = 500ms: must be at least 1s",
        ),
        (
            {"kubelet": {"extraConfig": {"imageGCHighThresholdPercent": 70}}},
            "imageGCHighThresholdPercent = 70: no kubelet starts unless imageGCLowThresholdPerc",
        ),
        (
            {"kubelet": {"extraConfig": {"enforceNodeAllocatable": ["pods", "system-reserved"]}}},
            "enforceNodeAllocatable = system-reserved: no kubelet starts with it without systemRes",
        ),
        (
            {"kubelet": {"extraConfig": {"shutdownGracePeriod": "5s"}}},
            "must not be shorter than shutdownGracePeriodCriticalPods, 10s, or no kubelet starts",
        ),
        (
            {"kubelet": {"extraConfig": {**BY_PRIORITY, "shutdownGracePeriod": "1m"}}},
            "no kubelet starts with it and shutdownGracePeriodByPodPriority",
        ),
        (
            {
                "apiServer": {"extraArgs": {"service-node-port-range": "20000-22767"}},
                "addons": {"objectStore": {"enabled": True}},
            },
            "must include 30070, to which gateways forward; remove it",
        ),
        (
            {"apiServer": {"extraArgs": {"service-node-port-range": "9000-31000"}}},
            (
                "must not include ports of the nodes themselves: "
                "9100, 10248, 10249, 10250, 10257, 10259"
            ),
        ),
        (
            {"apiServer": {"extraArgs": {"service-node-port-range": "32000-31000"}}},
            "apiServer.extraArgs.service-node-port-range = 32000-31000: must be a range of ports",
        ),
        (
            {"controllerManager": {"extraArgs": {"node-cidr-mask-size-ipv4": "26"}}},
            "every node has a /24 of podCidr; remove it",
        ),
        (
            {"kubeadm": {"ignorePreflightErrors": ["all", "NumCPU"]}},
            "kubeadm.ignorePreflightErrors = all, NumCPU: kubeadm takes `all` only alone",
        ),
        ({"dns": {"zone": "my_zone.example.org"}}, "dns.zone = my_zone.example.org: must be a DNS"),
        (
            {"addons": {"headlamp": {"host": "https://dash.example.org"}}},
            "addons.headlamp.host = https://dash.example.org: must be a DNS name such as",
        ),
        ({"addons": {"logging": {"retention": "12h"}}}, "= 12h: must be a day (24h) at least"),
        ({"addons": {"objectStore": {"cidrs": []}}}, "addons.objectStore.cidrs = []: must have"),
        (
            {"addons": {"monitoring": {"alertmanager": {}}}},
            "addons.monitoring.alertmanager = {}: must have",
        ),
        (scheduled("61 2 * * *"), "].schedule = 61 2 * * *: 61 is not within 0 to 59"),
        (scheduled("0 2 * * 1-7"), "1-7 is not within 0 to 6"),
        (scheduled("foo * * * *"), "foo must be *, N or N-M, or several with commas"),
        (scheduled("* jan * * *"), "jan must be *, N or N-M"),
        (scheduled(", * * * *"), ", must be *, N or N-M"),
        (scheduled("1- * * * *"), "1- must be *, N or N-M"),
        (scheduled("1-2-3 * * * *"), "1-2-3 must be *, N or N-M"),
        (scheduled("* * * * monday"), "monday must be *, N or N-M, or several with commas, with n"),
        (scheduled("5-1 * * * *"), "5-1 must have the smaller number first"),
        (scheduled("* * * * fri-mon"), "fri-mon must have the smaller number first"),
        (scheduled("*/0 * * * *"), "*/0 needs a number after '/', 1 or more"),
        (
            {"workerCount": 500},
            "too small for 503 nodes, which need a /24 each; use a /15 or larger",
        ),
        (
            {"workerPools": [{"name": "control-plane"}]},
            "is one of the reserved names gateway, control-plane, worker",
        ),
        ({"workerPools": [{"name": "a"}, {"name": "a"}]}, "another pool has this name"),
        ({"clusterName": "kubernetes"}, "is the default name of Cinder CSI"),
        ({"workerPools": [{"name": "a" * 63, "count": 9}]}, "has 70 characters, but at most 63"),
        ({"workerPools": [{"name": "a", "count": -1}]}, "workerPools[0].count = -1: must be"),
        ({"worker": {"maxUnhealthy": "101%"}}, "worker.maxUnhealthy = 101%: must be a number, or"),
        ({"worker": {"labels": {"a b": "c"}}}, "worker.labels.a b = a b: must be `name` or"),
        ({"worker": {"labels": {"a": "-"}}}, "worker.labels.a = -: must be empty, or at most 63"),
        ({"worker": {"labels": {"A_b/c": "d"}}}, "the part before '/' must be a DNS name"),
        ({"worker": {"taints": [{"key": "a", "effect": "No"}]}}, "must be 'NoSchedule',"),
        ({"gateway": {"flavour": "x"}}, "gateway.flavour = x: unknown key; did you mean gateway.f"),
        ({"worker_count": 3}, "worker_count = 3: unknown key; did you mean workerCount?"),
        ({"addons": {"cni": {"kinds": "x"}}}, "did you mean addons.cni.kind?"),
        ({"gateway": {"volume": {"type": "ssd"}}}, "gateway.volume.size: must be set"),
        (
            {"controlPlane": {"etcdVolume": {"size": 4}}},
            "controlPlane.etcdVolume.size = 4: must be at least 5: etcd.quotaBackendBytes (429",
        ),
        (
            {
                "controlPlane": {"etcdVolume": {"size": 5}},
                "etcd": {"quotaBackendBytes": 4 * 2**30 + 1},
            },
            "controlPlane.etcdVolume.size = 5: must be at least 6",
        ),
        ({"etcd": {"electionTimeout": 600}}, "must be at least 2500: 5 times etcd.heartbeatInt"),
        (
            {"httpProxy": {"noProxy": ["a"]}},
            "set httpProxy.http or httpProxy.https, or remove it",
        ),
        ({"httpProxy": {"http": "proxy:3128"}}, "must be a URL that starts with http://"),
        ({"registryMirrors": {"docker.io": []}}, 'registryMirrors["docker.io"] = []'),
        ({"registryMirrors": {"https://docker.io": ["https://m"]}}, "must be a registry's host"),
        (
            {"containerd": {"dropIns": {"a.toml": "a ="}}},
            'containerd.dropIns["a.toml"] = a =: must',
        ),
        ({"containerd": {"dropIns": {"../a": ""}}}, "must be a file name that ends in .toml"),
        ({"kubelet": {"extraConfig": {"kind": "x"}}}, "must not set kind; the program sets them"),
        ({"kubeadm": {"ignorePreflightErrors": ["A,B"]}}, "must be the name of one check"),
        ({"oidc": {"issuerUrl": "http://i", "clientId": "k"}}, "oidc.issuerUrl = http://i: must"),
        ({"dns": {"name": "k8s"}}, "dns.zone: must be set"),
        (
            {"worker": {"labels": {"kubernetes.io/hostname": "a"}}},
            'worker.labels["kubernetes.io/hostname"] = a: is a label that Kubernetes or this',
        ),
        (
            {"kubeadm": {"certificateValidityPeriod": "5m"}},
            "kubeadm.certificateValidityPeriod = 5m: must be from 15m to 8760h",
        ),
        (
            {"kubeadm": {"certificateValidityPeriod": "1y"}},
            "kubeadm.certificateValidityPeriod = 1y: must be a number of hours or minutes",
        ),
        (
            {"kubelet": {"extraConfig": {"maxPods": "200"}}},
            "kubelet.extraConfig.maxPods = 200: must be a number, without quotes",
        ),
        (
            {"kubelet": {"extraConfig": {"shutdownGracePeriod": 60}}},
            "kubelet.extraConfig.shutdownGracePeriod = 60: must be a time such as 1m30s",
        ),
        (
            {"kubelet": {"extraConfig": {"seccompDefault": "true"}}},
            "kubelet.extraConfig.seccompDefault = true: must be true or false, without quotes",
        ),
        (
            {"kubelet": {"extraConfig": {"systemReserved": {"memory": "1 GB"}}}},
            "kubelet.extraConfig.systemReserved.memory = 1 GB: must be a text with an amount",
        ),
        (
            {"kubelet": {"extraConfig": {"kubeReserved": {"pid": 1000}}}},
            "kubelet.extraConfig.kubeReserved.pid = 1000: must be a text with an amount, such as",
        ),
        (
            {"kubelet": {"extraConfig": {"kubeReserved": {"disk": "1Gi"}}}},
            "kubelet.extraConfig.kubeReserved.disk = 1Gi: unknown; use cpu, memory, ephemeral",
        ),
        (
            {"kubelet": {"extraConfig": {"evictionHard": {"memory.free": "5%"}}}},
            'kubelet.extraConfig.evictionHard["memory.free"] = 5%: unknown; use memory.available',
        ),
        ({"kubelet": {"extraConfig": {"evictionHard": "5%"}}}, "evictionHard = 5%: must be an"),
        (
            {"kubelet": {"extraConfig": {"evictionSoft": {"memory.available": "1Gi"}}}},
            'evictionSoftGracePeriod["memory.available"]: must be a time such as 1m30s: no kubelet',
        ),
        (
            {
                "kubelet": {
                    "extraConfig": {
                        "evictionSoft": {"memory.available": "1Gi", "pid.available": "5%"},
                        "evictionSoftGracePeriod": {
                            "memory.available": 90,
                            "pid.available": "1m30s",
                        },
                    }
                }
            },
            'evictionSoftGracePeriod["memory.available"] = 90: must be a time such as 1m30s',
        ),
        (
            {"apiServer": {"extraArgs": {"etcd-servers": "https://a"}}},
            "apiServer.extraArgs.etcd-servers = https://a: kubeadm sets it for this cluster",
        ),
        (
            {"apiServer": {"extraArgs": {"audit-log-maxage": 5}}},
            "apiServer.extraArgs.audit-log-maxage = 5: use auditLog; remove it",
        ),
        (
            {"apiServer": {"extraArgs": {"encryption-provider-config-automatic-reload": "false"}}},
            "-automatic-reload = false: a rotation of encryption keys needs it; remove it",
        ),
        (
            {"apiServer": {"extraArgs": {"enable-admission-plugins": "AlwaysPullImages"}}},
            "enable-admission-plugins = AlwaysPullImages: must include NodeRestriction",
        ),
        (
            {"apiServer": {"extraArgs": {"disable-admission-plugins": "A,NodeRestriction"}}},
            "disable-admission-plugins = A,NodeRestriction: must not include NodeRestriction",
        ),
        (
            {"controllerManager": {"extraArgs": {"node-cidr-mask-size": 25}}},
            "controllerManager.extraArgs.node-cidr-mask-size = 25: every node has a /24 of podCidr",
        ),
        (
            {"scheduler": {"extraArgs": {"--v": 4}}},
            "scheduler.extraArgs.--v = --v: must be the name of an argument, such as v, without --",
        ),
        ({"scheduler": {"extraArgs": {"v": "1\n2"}}}, "scheduler.extraArgs.v = 1 2: must be one"),
        ({"timeServers": "a b, c"}, "timeServers[0] = a b: must be a host name or an address"),
        (
            {
                "addons": {
                    "ingress": {"values": {"service": {"spec": {"externalTrafficPolicy": "Local"}}}}
                }
            },
            "addons.ingress.values.service.spec.externalTrafficPolicy = Local: the gateways send",
        ),
        (
            {"workerCount": 0, "addons": {"headlamp": {"enabled": True}}},
            "addons.headlamp.enabled = True: its pods run on workers, and this cluster has none",
        ),
        (
            {"worker": {"taints": [TAINT]}, "addons": {"headlamp": {"enabled": True}}},
            "its pods run on workers, and taints keep pods out of all of them; add a pool without",
        ),
        (
            {
                "addons": {
                    "cinderCsi": {"storageClasses": [{"name": "fast"}]},
                    "logging": {"enabled": True},
                }
            },
            "addons.logging.enabled = True: its volume would never be created",
        ),
        (
            {"auditLog": {"policy": {"kind": "Rule", "rules": [{"level": "Metadata"}]}}},
            "kind is Rule; it must be Policy, which is the default",
        ),
        (
            {"auditLog": {"policy": {"kind": "Policy"}}},
            "auditLog.policy = {'kind': 'Policy'}: must have a list of at least one rule",
        ),
        (
            {"auditLog": {"policy": {"rules": [{"verbs": ["get"]}]}}},
            "each rule needs a level: None, Metadata, Request, RequestResponse",
        ),
        ({"timeouts": {"drain": "30s"}}, "timeouts.drain = 30s: must be a number of hours or min"),
        ({"timeouts": {"ready": "25h"}}, "timeouts.ready = 25h: must be from 1m to 24h"),
        (
            {"workerPools": [{"name": "a", "labels": {"topology.kubernetes.io/zone": "z"}}]},
            'workerPools[0].labels["topology.kubernetes.io/zone"] = z: is a label',
        ),
        (
            {"worker": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
            'worker.labels["node-role.kubernetes.io/control-plane"]',
        ),
        (
            {"kubelet": {"extraConfig": {"healthzPort": 10348}}},
            "kubelet.extraConfig.healthzPort = 10348: the program asks port 10248 of the loopback",
        ),
        (
            {"kubelet": {"extraConfig": {"clusterDNS": ["10.0.0.1"], "maxPods": 200}}},
            "kubelet.extraConfig.clusterDNS = ['10.0.0.1']: kubeadm computes it from serviceCidr",
        ),
        (
            {"kubelet": {"extraConfig": {"cgroupDriver": "cgroupfs"}}},
            "kubelet.extraConfig.cgroupDriver = cgroupfs: must be the one of containerd, systemd",
        ),
        ({"image": "a\nb"}, "image = a b: must not contain line breaks or other control"),
        ({"worker": {"flavor": "a\0b"}}, r"worker.flavor = a\x00b: must not contain line breaks"),
        ({"oidc": {"issuerUrl": "https://i\x1b", "clientId": "k"}}, "oidc.issuerUrl = https://i"),
        (
            {"addons": {"cinderCsi": {"cloudConfig": {"Global": {"region": "a\n[Evil]"}}}}},
            "addons.cinderCsi.cloudConfig.Global.region = a [Evil]: must not contain",
        ),
    ],
)
def test_a_fault_names_the_key_the_value_and_what_to_do(raw: dict[str, Any], line: str) -> None:
    lines = told(**raw)
    assert len(lines) == 1, lines
    assert line in lines[0]


def test_the_stack_name_must_be_a_valid_cluster_name_if_none_is_set() -> None:
    assert "clusterName = my_stack: must be a DNS label" in told(stack="my_stack")[0]


def test_a_long_cluster_name_is_refused_for_the_machine_names_it_makes() -> None:
    # A kubelet does not register a node whose name does not fit into its label.
    assert cluster(clusterName="c" * 47).cluster_name
    [line] = told(clusterName="c" * 48)
    assert line.startswith("clusterName = ccc")
    assert "control-plane-0 has 64 characters, but at most 63 are allowed" in line


@pytest.mark.parametrize(
    "longer",
    [
        {"clusterName": "c" * 37},
        {"workerPools": [{"name": "p" * 46, "count": 1}]},
        {"workerPools": [{"name": "a", "machines": [{**MACHINE, "name": "m" * 53}]}]},
    ],
)
def test_new_certificate_authorities_need_node_names_that_openssl_takes(
    longer: dict[str, Any],
) -> None:
    assert cluster(**longer).machine_names
    [line] = told(**longer, rotation={"certificateAuthorities": 2})
    assert line.startswith("rotation.certificateAuthorities = 2: the node name ")
    assert "has 53 characters, but openssl requests new certificates for at most 52 only" in line
    assert cluster(clusterName="c" * 36, rotation={"certificateAuthorities": 2}).machine_names


def test_workers_in_an_existing_network_need_no_room_in_host_cidr() -> None:
    existing = {"network": "tenant", "subnet": "tenant-v4"}
    got = cluster(hostCidr="10.8.0.0/26", workerCount=60, existingNetwork=existing)
    assert got.worker_count == 60


class TestExistingMachines:
    def pool(self, **more: object) -> list[dict[str, object]]:
        return [{"name": "metal", "machines": [{**MACHINE, **more}]}]

    def test_they_are_a_pool_without_servers(self) -> None:
        pool = cluster(workerPools=self.pool()).pools[1]
        assert pool.count == 0
        assert pool.machines[0].address == IPv4Address("192.0.2.11")

    def test_they_need_no_flavor_or_image(self) -> None:
        own = {"flavor": "f", "image": "i"}
        raw = {"gateway": own, "controlPlane": own, "workerCount": 0, "flavor": "", "image": ""}
        assert cluster(**raw, workerPools=self.pool()).pools[1].machines

    def test_an_address_of_the_cluster_is_refused(self) -> None:
        lines = told(workerPools=self.pool(address="10.8.0.21"))
        assert "is reserved for control plane 0 in hostCidr" in lines[0]

    def test_two_with_one_address_are_refused(self) -> None:
        twice = {"name": "b", "machines": [{**MACHINE, "name": "rack-2"}]}
        lines = told(workerPools=[*self.pool(), twice])
        assert "workerPools[1].machines[0].address = 192.0.2.11: another machine has" in lines[0]

    @pytest.mark.parametrize("name", ["demo-worker-1", "demo-control-plane-4", "demo-gateway-0"])
    def test_the_name_of_a_server_is_refused(self, name: str) -> None:
        lines = told(workerPools=self.pool(name=name))
        assert "another machine has this name" in lines[0]

    def test_a_host_key_is_checked(self) -> None:
        lines = told(workerPools=self.pool(hostKey="192.0.2.11 ssh-ed25519 AAAA"))
        assert "`ssh-keyscan ADDRESS` prints them" in lines[0]

    def test_settings_of_servers_are_refused(self) -> None:
        pool = {**self.pool()[0], "count": 2, "flavor": "m1"}
        lines = told(workerPools=[pool])
        assert "workerPools[0].count = 2: set either count or machines, not both" in lines[0]
        assert "workerPools[0].flavor = m1: does not apply to machines" in lines[1]


@pytest.mark.parametrize(
    "more",
    [
        {"workerCount": 1},
        {"workerPools": [{"name": "metal", "machines": [MACHINE]}]},
        {"addons": {"headlamp": {"enabled": True, "values": {"tolerations": []}}}},
    ],
)
def test_add_ons_may_run_on_any_worker_or_where_their_values_say(more: dict[str, Any]) -> None:
    without_workers = {**LEAST, "workerCount": 0, "addons": {"headlamp": {"enabled": True}}}
    assert load({**without_workers, **more}, "demo").addons.headlamp.enabled


class TestVersionChange:
    @pytest.mark.parametrize(
        ("previous", "wanted"),
        [
            (None, "v1.37.0"),
            ("v1.36.3", "v1.36.3"),
            ("v1.36.3", "v1.36.4"),
            ("v1.35.9", "v1.36.3"),
            ("v1.36.10", "v1.37.0"),
        ],
    )
    def test_an_upgrade_that_kubeadm_supports_is_allowed(
        self, previous: str | None, wanted: str
    ) -> None:
        assert list(version_change_faults(previous, wanted)) == []

    @pytest.mark.parametrize(
        ("previous", "wanted", "told"),
        [
            ("v1.35.9", "v1.37.0", "upgrade to a v1.36 version first"),
            ("v1.36.3", "v1.35.9", "cannot be downgraded; set v1.36.3"),
            ("v1.36.10", "v1.36.9", "cannot be downgraded; set v1.36.10"),
        ],
    )
    def test_any_other_change_is_refused(self, previous: str, wanted: str, told: str) -> None:
        [fault] = version_change_faults(previous, wanted)
        assert told in str(fault)


class TestSecrets:
    def test_the_value_of_a_secret_key_is_not_shown(self) -> None:
        raw = {**LEAST, "httpProxy": {"http": "secret-proxy"}}
        with pytest.raises(ConfigError) as caught:
            load(raw, "demo", secret=["httpProxy"])
        assert "secret-proxy" not in str(caught.value)
        assert "httpProxy.http = [secret]: must be a URL" in str(caught.value)

    def test_the_value_of_an_unknown_secret_key_is_not_shown(self) -> None:
        with pytest.raises(ConfigError) as caught:
            load({**LEAST, "backup.secret": "hunter2"}, "demo", secret=["backup.secret"])
        assert "backup.secret = [secret]: unknown key" in str(caught.value)

    def test_a_password_in_a_url_is_not_shown(self) -> None:
        lines = told(oidc={"issuerUrl": "http://me:hunter2@example.org", "clientId": "k"})
        assert "http://me:***@example.org" in lines[0]

    def test_a_private_key_in_plain_text_is_refused_and_not_shown(self) -> None:
        lines = told(sshPrivateKey=text(new_key()), controlPlaneCount=2)
        assert "pulumi config set --secret sshPrivateKey" in lines[-1]
        assert "BEGIN" not in "".join(lines)
        assert len(lines) == 2

    def test_a_private_key_that_is_a_secret_is_not_part_of_the_model(self) -> None:
        got = load({**LEAST, "sshPrivateKey": text(new_key())}, "demo", secret=["sshPrivateKey"])
        assert got == cluster()

    @pytest.mark.parametrize(
        ("keys", "problem"),
        [
            ({}, "it needs the new key"),
            ({"sshPrivateKey": SSH_KEY.strip()}, "sshPrivateKey is the same key"),
            ({"sshPrivateKey": text(new_key())}, None),
        ],
    )
    def test_a_private_key_before_needs_another_one(
        self, keys: dict[str, str], problem: str | None
    ) -> None:
        raw = {**LEAST, "previousSshPrivateKey": SSH_KEY, **keys}
        if problem is None:
            assert load(raw, "demo", secret=list(raw)) == cluster()
            return
        with pytest.raises(ConfigError, match=f"previousSshPrivateKey: {problem}"):
            load(raw, "demo", secret=list(raw))

    @pytest.mark.parametrize("key", ["sshPrivateKey", "previousSshPrivateKey"])
    @pytest.mark.parametrize(
        ("unusable", "problem"),
        [
            ("new_key", "this is not a private key"),
            (public_of(SSH_KEY), "this is not a private key"),
            (SSH_KEY[:200], "this is not a private key"),
            (with_passphrase(), "it has a passphrase"),
            (text(new_key(), PKCS8, BestAvailableEncryption(b"hunter2")), "it has a passphrase"),
            (text(x25519.X25519PrivateKey.generate(), PKCS8), "keys of this type"),
        ],
        ids=["a file's name", "public", "cut", "passphrase", "passphrase, PEM", "type"],
    )
    def test_an_unusable_private_key_is_named_and_not_shown(
        self, key: str, unusable: str, problem: str
    ) -> None:
        raw = {**LEAST, "sshPrivateKey": SSH_KEY, key: unusable}
        with pytest.raises(ConfigError, match=f"1 fault:\n  {key}: {problem}") as caught:
            load(raw, "demo", secret=["sshPrivateKey", "previousSshPrivateKey"])
        assert unusable[:30] not in str(caught.value)
        assert f"`pulumi config set --secret {key} <FILE`" in str(caught.value)

    @pytest.mark.parametrize(
        "usable",
        [
            text(new_key()),
            text(new_key(), PKCS8),
            text(ec.generate_private_key(ec.SECP256R1())),
            text(rsa.generate_private_key(65537, 2048), TraditionalOpenSSL),
        ],
        ids=["Ed25519", "PEM", "ECDSA", "RSA"],
    )
    def test_a_private_key_may_have_any_form_that_ssh_keygen_writes(self, usable: str) -> None:
        raw = {**LEAST, "sshPrivateKey": usable.strip()}
        assert load(raw, "demo", secret=["sshPrivateKey"]) == cluster()


class NoResources(pulumi.runtime.Mocks):
    """For programs that only read their configuration."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        raise AssertionError(args)

    def call(
        self, args: pulumi.runtime.MockCallArgs
    ) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        raise AssertionError(args)


@pytest.fixture
def stack() -> Iterator[None]:
    pulumi.runtime.set_mocks(NoResources(), project=PROJECT, stack="lab")
    yield
    pulumi.runtime.set_all_config({}, [])


@pytest.mark.usefixtures("stack")
def test_a_stack_is_read_as_the_engine_passes_it() -> None:
    pulumi.runtime.set_all_config(
        {
            "openstack-kubernetes:externalNetwork": "public",
            "openstack-kubernetes:allowedCidrs": '["203.0.113.7"]',
            "openstack-kubernetes:image": "123",
            "openstack-kubernetes:flavor": "true",
            "openstack-kubernetes:controlPlaneCount": "1",
            "openstack-kubernetes:dns": "{}",
            "openstack-kubernetes:addons": '{"cni": {"kind": "none"}}',
            "openstack-kubernetes:sshPrivateKey": SSH_KEY,
            "openstack:cloud": "lab",
        },
        ["openstack-kubernetes:addons", "openstack-kubernetes:sshPrivateKey"],
    )
    got = cluster_of_stack()
    assert (got.cluster_name, got.control_plane_count, got.image, got.flavor) == (
        "lab",
        1,
        "123",
        "true",
    )
    assert got.allowed_cidrs == (IPv4Network("203.0.113.7/32"),)
    assert got.addons.cni.kind == "none"
    secrets = secrets_of_stack()
    assert secrets.settings_with_secrets == {"addons"}
    assert len(secrets.ssh_private_keys) == 1


class TestBackup:
    BUCKET: ClassVar[dict[str, Any]] = {
        "endpoint": "https://object.example.org",
        "name": "backups",
        "accessKey": "AKEY",
    }

    def test_snapshots_are_taken_by_default(self) -> None:
        assert cluster().backup.places == ("disk",)
        assert cluster(backup={"enabled": False}).backup.places == ()

    def test_a_bucket_needs_its_secret_key(self) -> None:
        assert told(backup={"bucket": self.BUCKET}) == [
            "backupSecretKey: backup.bucket needs it: `pulumi config set --secret backupSecretKey`"
        ]
        raw = {**LEAST, "backup": {"bucket": self.BUCKET}, "backupSecretKey": "s"}
        got = load(raw, "demo", secret=["backupSecretKey"])
        assert got.backup.places == ("disk", "bucket")

    def test_the_secret_key_is_a_secret(self) -> None:
        [line] = told(backup={"bucket": self.BUCKET}, backupSecretKey="s")
        assert line.startswith("backupSecretKey: set it again as a secret: ")

    def test_a_name_that_does_not_fit_into_a_url_is_refused(self) -> None:
        [line] = told(backup={"restore": "a snapshot"})
        assert line.startswith("backup.restore = a snapshot: must consist of letters, digits, '.'")
        for key in ("name", "region"):
            [line] = told(backup={"bucket": {**self.BUCKET, key: "a/b"}})
            assert line.startswith(f"backup.bucket.{key} = a/b: must consist of letters, digits")

    def test_a_restore_needs_a_bucket(self) -> None:
        assert told(backup={"restore": "demo-1/x.db.gz"}) == [
            "backup.restore = demo-1/x.db.gz: needs a bucket; set backup.bucket too"
        ]


@pytest.mark.parametrize(
    "schedule", ["*/15 9-17 * * MON-FRI", "0 2 1,15 * 0", "05/10 ? 1-7/2 jan,Mar 6", "@weekly"]
)
def test_what_kubernetes_takes_as_a_schedule_is_taken(schedule: str) -> None:
    [made] = cluster(**scheduled(schedule)).addons.snapshots.schedules
    assert made.schedule == schedule


def test_names_and_ranges_that_kubernetes_takes_are_taken() -> None:
    made = cluster(
        dns={"zone": "k8s.example.org."},
        apiServer={"extraArgs": {"service-node-port-range": "30000+2767"}},
        kubelet={
            "extraConfig": {
                **BY_PRIORITY,
                "shutdownGracePeriod": "0s",
                "imageGCHighThresholdPercent": 90,
                "volumeStatsAggPeriod": "-1s",
                "syncFrequency": "1m.5s",
                "evictionHard": {"imagefs.available": "100%"},
                "enforceNodeAllocatable": ["pods", "kube-reserved"],
                "kubeReservedCgroup": "/kube",
                "aFieldOfALaterVersion": "any",
            }
        },
        controlPlane={"etcdVolume": {"size": 2}},
        etcd={"quotaBackendBytes": 2**30},
        addons={
            "ingress": {"enabled": True},
            "cinderCsi": {"storageClasses": [{"name": "slow"}]},
            "logging": {"enabled": True, "storageClass": "fast.ssd", "retention": "24h"},
        },
    )
    assert made.dns
    assert made.dns.zone == "k8s.example.org."
