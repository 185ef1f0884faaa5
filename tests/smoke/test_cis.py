"""Controls of the CIS benchmark that the API shows; docs/cis.md has all of them."""

from __future__ import annotations

import json

import pytest

from tests.smoke.live import Live

ARGUMENTS = {
    "kube-apiserver": {
        "--profiling=false",
        "--service-account-extend-token-expiration=false",
        "--kubelet-certificate-authority=/etc/kubernetes/pki/ca.crt",
    },
    "kube-controller-manager": {"--profiling=false"},
    "kube-scheduler": {"--profiling=false"},
}
# Except with monitoring: Prometheus asks from another machine.
OWN_MACHINE_ONLY = {"kube-controller-manager", "kube-scheduler"}
LOCAL = "--bind-address=127.0.0.1"


@pytest.mark.parametrize("component", ARGUMENTS)
def test_the_control_plane_has_the_arguments_of_the_benchmark(live: Live, component: str) -> None:
    pods = live.get("pods", "-n", "kube-system", "-l", f"component={component}")
    if not pods:
        pytest.skip("the control plane is not visible")
    wanted = ARGUMENTS[component]
    if component in OWN_MACHINE_ONLY and not live.has("namespace", "monitoring", "default"):
        wanted = {*wanted, LOCAL}
    for each in pods:
        [container] = each["spec"]["containers"]
        assert wanted <= set(container["command"])


def test_each_kubelet_confines_pods_that_do_not_say_how(live: Live) -> None:
    for node in live.get("nodes"):
        name = node["metadata"]["name"]
        config = json.loads(live.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/configz"))
        assert config["kubeletconfig"]["seccompDefault"] is True, name
