"""kube-proxy.sh and coredns.sh: what kubeadm installs, as the configuration wants it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.scripts.conftest import Machine
from tests.scripts.control_plane.conftest import (
    before_upgrade,
    configure,
    member,
    with_kube_proxy,
)


def test_a_changed_configuration_reaches_kube_proxy(make: Callable[..., Machine]) -> None:
    machine = with_kube_proxy(make())
    machine.answer("get configmap kube-proxy", "old", times=1)
    machine.environment["RESTART_TIMEOUT"] = "20"
    # The controller has not seen it; then the first pod starts; then it runs.
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|5|1|1", times=2)
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|4|3|", times=1)
    result = configure(machine)
    assert result.status == 0, result
    machine.order("replace -f -", "rollout restart daemonset kube-proxy", "annotate configmap")
    [sent] = [each["stdin"] for each in machine.recorded if "replace -f -" in each["line"]]
    # Not the DaemonSet: its version is the upgrade's business.
    assert [line for line in sent.splitlines() if "kind" in line] == ["kind: ConfigMap"]
    assert len(machine.called("get daemonset kube-proxy -o jsonpath")) == 4


def test_kube_proxy_is_left_alone_when_something_else_has_changed(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    assert configure(machine).status == 0
    assert not machine.called("rollout")


def test_a_kube_proxy_that_does_not_start_stops_the_run_and_is_tried_again(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    machine.answer("get configmap kube-proxy", "old", times=1)
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|5|1|1")
    result = configure(machine)
    assert result.status == 1
    assert "kube-proxy does not start with its new configuration" in result.log
    machine.rules = [rule for rule in machine.rules if not rule["times"]]
    machine.answer("get daemonset kube-proxy -o jsonpath", "6|6|1|")
    assert configure(machine).status == 0
    assert machine.called("rollout restart")


def test_an_api_server_that_restarts_is_waited_for(make: Callable[..., Machine]) -> None:
    machine = with_kube_proxy(make())
    machine.environment["RESTART_TIMEOUT"] = "20"
    machine.answer("get configmap kube-proxy", "old", times=1)
    machine.answer("get configmap kube-proxy", status=1, times=1)
    machine.answer("rollout restart", status=1, times=1)
    machine.answer("get daemonset kube-proxy --ignore-not-found", status=1, times=2)
    result = configure(machine)
    assert result.status == 0, result
    assert len(machine.called("rollout restart")) == 2


@pytest.mark.parametrize("image", ["", "k8s/kube-proxy:v1.35.4"])
def test_no_kube_proxy_and_one_that_is_not_upgraded_yet_are_left_alone(
    make: Callable[..., Machine], image: str
) -> None:
    machine = with_kube_proxy(make())
    machine.answer("get daemonset kube-proxy --ignore-not-found", image)
    assert configure(machine).status == 0
    assert not machine.called("replace")


def test_another_registry_reaches_kube_proxy(make: Callable[..., Machine]) -> None:
    machine = with_kube_proxy(make())
    new = "r.example/m/kube-proxy:v1.36.3"
    machine.answer("^kubeadm config images list", f"r.example/m/pause:3.10\n{new}\n")
    # A worker gets the mirror of this registry later in the same update.
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|5|1|1")
    assert configure(machine).status == 0
    machine.order("replace -f -", f"set image daemonset kube-proxy kube-proxy={new}")
    # With the image, the pods restart already.
    assert not machine.called("rollout restart")


def with_coredns(machine: Machine) -> Machine:
    machine.answer("get deployment coredns", "r.example/coredns:v1.14.2")
    return machine


def applied(machine: Machine) -> dict[str, Any]:
    """Kind -> the object of this kind that was applied."""
    texts = [each["stdin"] for each in machine.recorded if " apply -f -" in each["line"]]
    return {each["kind"]: each for each in map(yaml.safe_load, texts)}


def test_each_coredns_runs_on_another_machine_and_one_on_every_node(
    make: Callable[..., Machine],
) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="3", NODE_DNS="true")))
    assert configure(machine).status == 0
    [patch] = machine.called("patch deployment coredns")
    spec = json.loads(patch.partition("--patch ")[2])["spec"]
    assert spec["replicas"] == 3
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    [apart] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    objects = applied(machine)
    pods = objects["DaemonSet"]["spec"]["template"]
    # The image that this version of Kubernetes has, from wherever kubeadm takes it.
    assert pods["spec"]["containers"][0]["image"] == "r.example/coredns:v1.14.2"
    assert pods["spec"]["tolerations"] == [{"operator": "Exists"}]
    # What allows pods to ask CoreDNS allows them to ask these. They are on every node: the others
    # could not be apart from them, and a budget can only count pods with a number of replicas.
    assert pods["metadata"]["labels"]["k8s-app"] == "kube-dns"
    budget = objects["PodDisruptionBudget"]["spec"]
    for selector in (apart["labelSelector"], budget["selector"]):
        assert selector == {
            "matchLabels": {"k8s-app": "kube-dns"},
            "matchExpressions": [
                {
                    "key": "app.kubernetes.io/name",
                    "operator": "NotIn",
                    "values": [pods["metadata"]["labels"]["app.kubernetes.io/name"]],
                }
            ],
        }
    assert budget["maxUnavailable"] == 1


@pytest.mark.parametrize(
    ("listed", "moved"),
    [
        ("mirror.example/m/coredns:v1.14.2", True),
        # Another version comes with an upgrade.
        ("mirror.example/m/coredns:v1.15.0", False),
        ("r.example/coredns:v1.14.2", False),
    ],
)
def test_another_registry_reaches_coredns_on_every_node_too(
    make: Callable[..., Machine], listed: str, moved: bool
) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="2", NODE_DNS="true")))
    machine.answer("^kubeadm config images list", f"{listed}\n")
    assert configure(machine).status == 0
    assert bool(machine.called(f"set image deployment coredns coredns={listed}")) is moved
    pods = applied(machine)["DaemonSet"]["spec"]["template"]
    image = listed if moved else "r.example/coredns:v1.14.2"
    assert pods["spec"]["containers"][0]["image"] == image


def test_coredns_is_placed_again_after_kubeadm_has_written_its_own(
    make: Callable[..., Machine],
) -> None:
    machine = with_coredns(before_upgrade(make(COREDNS_REPLICAS="2")))
    assert configure(machine).status == 0
    machine.order("kubeadm upgrade node", "patch deployment coredns")


def test_a_coredns_on_every_node_goes_when_it_is_switched_off(make: Callable[..., Machine]) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="2", NODE_DNS="false")))
    assert configure(machine).status == 0
    assert machine.called("delete daemonset node-dns")
    assert set(applied(machine)) == {"PodDisruptionBudget"}


def test_where_coredns_is_missing_nothing_takes_its_place(make: Callable[..., Machine]) -> None:
    machine = member(make(COREDNS_REPLICAS="2", NODE_DNS="true"))
    assert configure(machine).status == 0
    assert machine.called("get deployment coredns")
    assert not machine.called("patch deployment")
    assert not applied(machine)


def test_an_api_server_that_restarts_is_waited_for_before_coredns_is_placed(
    make: Callable[..., Machine],
) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="2", NODE_DNS="true")))
    machine.environment["RESTART_TIMEOUT"] = "20"
    machine.answer("apply -f -", status=1, times=2)
    machine.answer("get deployment coredns", status=1, times=1)
    assert configure(machine).status == 0
    assert set(applied(machine)) == {"PodDisruptionBudget", "DaemonSet"}
