"""Servers and existing machines, and what they are sent."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.unit.engine import NODES, SERVER, SMALL, Run, command, files, node_env, run, server
from tests.unit.program.settings import METAL, METAL_A


def test_a_machine_that_joins_while_the_audit_log_is_switched_off_has_its_policy() -> None:
    """The cluster has stored the arguments of before."""
    switched_off = run({"auditLog": {"enabled": False}})
    sent = files(command(switched_off, "demo-control-plane-0-configure"))
    assert "etc/audit-policy.yaml" in sent


def test_new_kubelet_settings_reach_workers(updated: Run) -> None:
    changed = run({"workerCount": 3, "kubelet": {"extraConfig": {"maxPods": 200}}}, existing=NODES)
    before, after = (
        node_env(command(made, "demo-worker-0-configure")) for made in (updated, changed)
    )
    # They come from the cluster: the checksum has the engine run what takes them.
    assert {key for key in after if after[key] != before[key]} == {"KUBELET_CONFIG_SHA256"}


def test_a_node_has_the_time_of_the_configuration() -> None:
    longer = run({"timeouts": {"drain": "3h", "ready": "20m"}})
    for name in NODES:
        for step, verb in (("membership", "delete"), ("join", "create")):
            script = command(longer, f"{name}-{step}")
            settings = node_env(script)
            assert (settings["DRAIN_TIMEOUT"], settings["READY_TIMEOUT"]) == ("10800", "1200")
            [limit] = re.findall(r"timeout --kill-after=30 (\d+) ", script.inputs[verb])
            assert int(limit) > 10800 + 1200


def test_gateways_listen_to_every_address_that_a_gateway_can_have() -> None:
    for count in (1, 3):
        made = run({**SMALL, "gatewayCount": count})
        settings = node_env(command(made, "demo-gateway-0-configure"))
        assert settings["GATEWAY_PLACES"] == "'10.8.0.11 10.8.0.12 10.8.0.13 10.8.0.14'"


def test_another_floating_ip_takes_the_place_of_the_one_before_it() -> None:
    made = run({**SMALL, "floatingIp": "198.51.100.8"})
    [association] = made.all("networking/floatingIpAssociate:FloatingIpAssociate").values()
    assert association.inputs["floatingIp"] == "198.51.100.8"
    assert association.delete_before_replace
    assert not made.all("networking/floatingIp:FloatingIp")


@pytest.mark.parametrize("zone", ["example.org", "example.org."])
def test_the_record_is_in_the_zone_whether_or_not_its_key_ends_with_a_dot(zone: str) -> None:
    made = run({**SMALL, "dns": {"zone": zone, "name": "k8s"}})
    record = made.one("dns/recordSet:RecordSet", "demo-gateway")
    assert record.inputs["zoneId"] == "example.org.-id"
    assert record.inputs["name"] == "k8s.example.org."


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


def test_a_login_is_not_refused_while_a_machine_boots(fresh: Run) -> None:
    for each in fresh.all(SERVER).values():
        assert ["rm", "-f", "/run/nologin"] in yaml.safe_load(each.inputs["userData"])["bootcmd"]


def test_without_mirrors_the_images_own_package_sources_stay(fresh: Run) -> None:
    for each in fresh.all(SERVER).values():
        assert "apt" not in yaml.safe_load(each.inputs["userData"])


def test_a_worker_has_an_ipv4_address_in_a_network_with_ipv6_too(fresh: Run) -> None:
    configure = command(fresh, "demo-worker-0-configure")
    assert configure.inputs["connection"]["host"] == "10.8.0.77"
    assert node_env(configure)["NODE_IP"] == "10.8.0.77"


def test_an_existing_machine_joins_without_a_server() -> None:
    joined = run({"workerPools": [METAL]})
    assert "metal-a" not in joined.all(SERVER)
    configure = command(joined, "metal-a-configure").inputs["connection"]
    assert configure["host"] == "10.8.1.5"
    assert configure["hostKey"] == "ecdsa-sha2-nistp256 AAAA"


def test_a_server_can_boot_from_a_volume() -> None:
    booted = run({**SMALL, "worker": {"volume": {"size": 20, "type": "fast"}}})
    disk = server(booted, "demo-worker-0").inputs["blockDevices"][0]
    assert (disk["volumeSize"], disk["volumeType"], disk["uuid"]) == (20, "fast", "debian-13-id")
    assert "imageName" not in server(booted, "demo-worker-0").inputs


def test_an_existing_machine_with_another_disk_or_user_gets_the_scripts_again() -> None:
    copies = []
    for change in ({}, {"hostKey": "ecdsa-sha2-nistp256 BBBB"}, {"sshUser": "someone"}):
        made = run({**SMALL, "workerPools": [{**METAL, "machines": [{**METAL_A, **change}]}]})
        copies.append(made.one("remote:CopyToRemote", "metal-a-scripts").inputs["triggers"])
    assert len({tuple(triggers) for triggers in copies}) == 3
