"""The default cluster, and faults that a preview names."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pulumi.output import UNKNOWN

from components import last_update, refused_changes
from components.authorities import Phase
from components.last_outputs import LastOutputs
from components.packing import scripts
from config.errors import ConfigError, Fault
from config.load import load
from tests.runbooks import runbook
from tests.unit.engine import (
    CLOUDS_OWN,
    CLUSTER_ID,
    COMMAND,
    GATEWAYS,
    MINIMAL,
    NODES,
    SERVER,
    SMALL,
    Recorder,
    Run,
    files,
    node_env,
    run,
)
from tests.unit.ssh_keys import new_key, text

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.parametrize("preview", [True, False])
def test_the_default_cluster_is_highly_available(preview: bool) -> None:
    servers = run(preview=preview).all(SERVER)
    assert sorted(servers) == sorted([*GATEWAYS, *NODES])


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


NO_OUTPUTS = LastOutputs(
    machines=frozenset(),
    node_at={},
    floating_ip=None,
    kubernetes_version=None,
    ssh_key_checksum=None,
    immutable_settings={},
    host_keys=None,
    authorities=None,
)


def test_one_message_names_every_change_that_the_cluster_cannot_follow() -> None:
    last = replace(
        NO_OUTPUTS,
        kubernetes_version="v1.36.3",
        immutable_settings={"podCidr": "10.200.0.0/16"},
        host_keys=3,
    )
    with pytest.raises(ConfigError) as caught:
        refused_changes.check(last, load({**MINIMAL, "kubernetesVersion": "v1.35.9"}, "demo"))
    keys = [fault.key for fault in caught.value.faults]
    assert keys == ["kubernetesVersion", "podCidr", "rotation.hostKeys"]


def test_an_update_that_is_refused_has_made_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a preview, it would leave what no later update knows."""
    asked: list[str] = []
    register = Recorder.RegisterResource

    def recorded(monitor: Recorder, request: Any) -> Any:  # noqa: ANN401
        asked.append(request.type)
        return register(monitor, request)

    read = last_update._last_outputs

    async def read_slowly(stack: str) -> LastOutputs:
        await asyncio.sleep(0.5)
        return await read(stack)

    monkeypatch.setattr(Recorder, "RegisterResource", recorded)
    monkeypatch.setattr(last_update, "_last_outputs", read_slowly)
    with pytest.raises(ConfigError, match="podCidr"):
        run({"podCidr": "10.9.0.0/16"}, existing=NODES, made_with={"podCidr": "10.244.0.0/16"})
    components = ("pulumi:pulumi:Stack", "openstack-kubernetes:")
    assert [kind for kind in asked if not kind.startswith(components)] == []


def test_what_one_update_leaves_is_what_the_next_one_reads(fresh: Run) -> None:
    last = LastOutputs.of(fresh.outputs)
    assert last.machines == {*GATEWAYS, *NODES}
    assert last.node_at["10.8.0.21"] == "demo-control-plane-0"
    assert last.floating_ip == CLOUDS_OWN["FloatingIp"]["address"]
    assert last.kubernetes_version == load(MINIMAL, "demo").kubernetes_version
    assert last.ssh_key_generation([fresh.outputs["sshPrivateKey"]]) == 1
    assert last.immutable_settings["podCidr"] == "10.244.0.0/16"
    assert last.host_keys == 1
    assert last.authorities == (1, Phase.DONE)


def test_no_node_leaves_while_the_floating_ip_changes() -> None:
    """It would be drained through the last one, which moves first."""
    cluster = load({**MINIMAL, "floatingIp": "198.51.100.9"}, "demo")
    last = replace(NO_OUTPUTS, floating_ip="198.51.100.7", machines=frozenset({"demo-gateway-9"}))
    refused_changes.check(last, cluster)
    last = replace(last, node_at={"10.8.0.50": "demo-worker-9"})
    with pytest.raises(ConfigError, match=r"floatingIp = 198.51.100.9: demo-worker-9 cannot leave"):
        refused_changes.check(last, cluster)
    refused_changes.check(last, load(MINIMAL, "demo"))


def test_no_control_plane_leaves_with_an_upgrade() -> None:
    """They leave at its end, and kubeadm upgrades no add-on next to an older API server."""
    three = frozenset(f"demo-control-plane-{index}" for index in range(3))
    last = replace(NO_OUTPUTS, kubernetes_version="v1.35.4", machines=three)
    upgrade = {**MINIMAL, "kubernetesVersion": "v1.36.3"}
    refused_changes.check(last, load({**upgrade, "controlPlaneCount": 3}, "demo"))
    one = load({**upgrade, "controlPlaneCount": 1}, "demo")
    said = "controlPlaneCount = 1: demo-control-plane-1, demo-control-plane-2 cannot leave"
    with pytest.raises(ConfigError, match=said):
        refused_changes.check(last, one)
    refused_changes.check(replace(last, kubernetes_version="v1.36.3"), one)


def test_a_machine_that_is_a_node_cannot_get_another_name() -> None:
    machine = {"name": "metal-1", "address": "192.0.2.11", "hostKey": "ssh-ed25519 AAAA"}
    cluster = load({**MINIMAL, "workerPools": [{"name": "metal", "machines": [machine]}]}, "demo")
    refused_changes.check(replace(NO_OUTPUTS, node_at={"192.0.2.11": "metal-1"}), cluster)
    with pytest.raises(ConfigError, match="is the node metal-0: take it out") as caught:
        refused_changes.check(replace(NO_OUTPUTS, node_at={"192.0.2.11": "metal-0"}), cluster)
    assert caught.value.faults[0].key == "workerPools[0].machines[0].name"


def test_a_new_cluster_cannot_have_the_name_of_another_stacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"demo-0badcafe"}
    monkeypatch.setattr("cloud.check", lambda _: frozenset(there))
    # With the checks on, a preview asks the API whether it is there.
    monkeypatch.setattr("components.addons.when_it_answers", lambda kubeconfig: kubeconfig)
    checked = {**SMALL, "cloudChecks": True}
    with pytest.raises(ConfigError, match=r"clusterName = demo: .* of this name, demo-0badcafe;"):
        run(checked, preview=True)
    # One that lives already cannot change its name any more.
    assert run(checked, existing=NODES, preview=True).resources
    # Servers of its own, by an update that failed.
    there.clear()
    there.add(CLUSTER_ID)
    assert run(checked, preview=True).resources
    # Before its first update it has no ID.
    with pytest.raises(ConfigError, match=CLUSTER_ID):
        refused_changes.check_cluster_id(
            NO_OUTPUTS, load(MINIMAL, "demo"), own=UNKNOWN, of_this_name=there
        )


def test_a_key_that_the_machines_do_not_know_is_refused_at_preview() -> None:
    new, old = text(new_key()), text(new_key())
    own = {**SMALL, "sshPrivateKey": new}
    secret = ["sshPrivateKey"]
    with pytest.raises(
        ConfigError, match="sshPrivateKey: this is not the text of the key"
    ) as error:
        run(own, secret=secret, existing=NODES, ssh_key=old, preview=True)
    assert "see 'Your own SSH key' in docs" in str(error.value)
    assert runbook("Your own SSH key")
    assert run(own, secret=secret, existing=NODES, ssh_key=new, preview=True).resources
    assert run(own, secret=secret, existing=NODES, ssh_key=old).resources
    assert run(own, secret=secret, preview=True).resources
    # One that left the configuration: the new one is not made yet.
    with pytest.raises(ConfigError, match="sshPrivateKey"):
        refused_changes.check_ssh_key(LastOutputs.of({"sshPrivateKey": old}), UNKNOWN)


def test_the_contract_names_everything_in_a_folder(everything: Run) -> None:
    folders = [each for each in everything.all(COMMAND).values() if each.inputs.get("stdin")]
    sent = {name for each in folders for name in files(each)} - scripts("lib", "host-key").keys()
    held = {name.rpartition("/")[2] for name in sent}
    # The contract names whole folders of scripts.
    held |= {name.partition("/")[0] for name in scripts()}
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
        read = loop.run_until_complete(last_update._last_outputs("organization/project/demo"))
    assert read == NO_OUTPUTS
