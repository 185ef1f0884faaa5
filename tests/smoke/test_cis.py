"""Controls of the CIS benchmark that the API shows; docs/cis.md has all of them."""

from __future__ import annotations

import json

import pytest

from tests.smoke.live import Live

OFF = {
    "kube-apiserver": ("profiling", "service-account-extend-token-expiration"),
    "kube-controller-manager": ("profiling",),
    "kube-scheduler": ("profiling",),
}


@pytest.mark.parametrize("component", OFF)
def test_what_is_switched_off_stays_off(live: Live, component: str) -> None:
    pods = live.get("pods", "-n", "kube-system", "-l", f"component={component}")
    if not pods:
        pytest.skip("the control plane is not visible")
    for each in pods:
        [container] = each["spec"]["containers"]
        assert {f"--{flag}=false" for flag in OFF[component]} <= set(container["command"])


def test_each_kubelet_confines_pods_that_do_not_say_how(live: Live) -> None:
    for node in live.get("nodes"):
        name = node["metadata"]["name"]
        config = json.loads(live.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/configz"))
        assert config["kubeletconfig"]["seccompDefault"] is True, name
