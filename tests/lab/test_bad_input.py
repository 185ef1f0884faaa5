"""Bad configuration fails at preview with its key and value, and nothing is created."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lab import settings
from lab.cloud.layout import EXTERNAL_NETWORK
from lab.cluster import Cluster, openstack, run
from lab.errors import LabError
from lab.image import name as image_name
from lab.image import versions

IMAGE = image_name(versions.KUBERNETES)
NAME = "refused"


@pytest.fixture(scope="module")
def stack() -> Iterator[Cluster]:
    """A stack without resources."""
    cluster = Cluster(NAME, settings.cluster(image=IMAGE))
    yield cluster
    cluster.destroy()


@pytest.fixture
def taken_address() -> Iterator[str]:
    """A floating IP that points to someone else's port."""
    subnet = ("--network", "someone", "--subnet-range", "10.99.0.0/24")
    with ExitStack() as undo:
        run("openstack", "network", "create", "someone")
        undo.callback(run, "openstack", "network", "delete", "someone")
        run("openstack", "subnet", "create", "s", *subnet)
        run("openstack", "router", "create", "someone", "--external-gateway", EXTERNAL_NETWORK)
        undo.callback(run, "openstack", "router", "delete", "someone")
        run("openstack", "router", "add", "subnet", "someone", "s")
        undo.callback(run, "openstack", "router", "remove", "subnet", "someone", "s")
        run("openstack", "port", "create", "someone", "--network", "someone")
        undo.callback(run, "openstack", "port", "delete", "someone")
        address = openstack("floating", "ip", "create", EXTERNAL_NETWORK, "--port", "someone")[
            "floating_ip_address"
        ]
        undo.callback(run, "openstack", "floating", "ip", "delete", address)
        yield address


@pytest.fixture
def without_router() -> Iterator[str]:
    """A network with a subnet of the same name, which nothing connects."""
    name = "island"
    run("openstack", "network", "create", name)
    run("openstack", "subnet", "create", name, "--network", name, "--subnet-range", "10.98.0.0/24")
    yield name
    run("openstack", "network", "delete", name)


def refusal(stack: Cluster, **bad: Any) -> str:
    """Return the error of a preview with these keys, which are then reset."""
    good = settings.cluster(image=IMAGE)
    stack.stack.configure(bad)
    try:
        with pytest.raises(LabError) as refused:
            stack.stack.pulumi("preview", capture=True)
    finally:
        stack.stack.configure({key: good.get(key) for key in bad})
    return str(refused.value)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"worker": {"flavor": "lab.2c3gb"}}, ["worker.flavor", "lab.2c3gb", "lab.2c3g"]),
        ({"image": IMAGE + "x"}, ["image", IMAGE + "x", f"did you mean {IMAGE}"]),
        ({"externalNetwork": "externl"}, ["externalNetwork", "externl", "did you mean external"]),
        ({"workerCount": 180}, ["workerCount", "180", "quota"]),
        ({"controlPlaneCount": 2}, ["controlPlaneCount", "2", "1, 3 or 5"]),
        ({"allowedCidrs": None}, ["allowedCidrs", "203.0.113.0/24", "There is no default"]),
        ({"podCidr": "10.8.0.0/16"}, ["podCidr", "10.8.0.0/16", "hostCidr"]),
        ({"kubernetesVersion": "v1.30.0"}, ["kubernetesVersion", "v1.30.0"]),
        ({"openstack:cloud": "labb"}, ["openstack:cloud", "labb"]),
    ],
)
def test_an_error_names_its_key_and_what_to_do(
    stack: Cluster, bad: dict[str, Any], said: list[str]
) -> None:
    error = refusal(stack, **bad)
    print(error)
    assert [text for text in said if text not in error] == []


def test_all_errors_are_reported_at_once(stack: Cluster) -> None:
    error = refusal(stack, controlPlaneCount=4, podCidr="10.8.0.0/16")
    assert "controlPlaneCount" in error
    assert "podCidr" in error


def test_a_floating_ip_that_is_in_use_is_refused(stack: Cluster, taken_address: str) -> None:
    error = refusal(stack, floatingIp=taken_address)
    assert taken_address in error
    assert "floatingIp" in error


def test_an_existing_subnet_without_a_router_is_refused(
    stack: Cluster, without_router: str
) -> None:
    existing = {"network": without_router, "subnet": without_router}
    error = refusal(stack, existingNetwork=existing)
    assert f"existingNetwork.subnet = {without_router}: has no router" in error


def test_nothing_was_created(stack: Cluster) -> None:
    names = [each["Name"] for each in (*openstack("server", "list"), *openstack("network", "list"))]
    assert [name for name in names if name.startswith(NAME)] == []
