"""The cluster's own cloud credential: what it may ask for, and when it is replaced."""

from __future__ import annotations

import re
from typing import Any

import pytest

from components.access_rules import access_rules
from tests.unit.engine import CLUSTER_ID, MINIMAL, SMALL, Recorded, run

KIND = "applicationCredential:ApplicationCredential"


def credential(**settings: Any) -> Recorded:
    return run({**SMALL, **settings}).one(KIND, "demo")


def test_there_is_none_where_no_program_logs_in() -> None:
    off = {"cloudControllerManager": {"enabled": False}, "cinderCsi": {"enabled": False}}
    assert run({**SMALL, "addons": {**MINIMAL["addons"], **off}}).all(KIND) == {}


def allowed(service: str, method: str, path: str, *, load_balancers: bool = False) -> bool:
    """True if a rule allows the request, as keystonemiddleware compares them."""
    return any(
        (rule.service, rule.method) == (service, method)
        and re.fullmatch(rule.path.replace("**", ".+").replace("*", "[^/]+"), path)
        for rule in access_rules(load_balancers=load_balancers)
    )


@pytest.mark.parametrize("prefix", ["", "/compute"])
def test_a_restricted_credential_attaches_volumes_and_deletes_no_server(prefix: str) -> None:
    server = f"{prefix}/v2.1/servers/7c1f"
    assert allowed("compute", "GET", server)
    assert allowed("compute", "POST", f"{server}/os-volume_attachments")
    assert allowed("compute", "DELETE", f"{server}/os-volume_attachments/9a")
    assert not allowed("compute", "DELETE", server)
    assert not allowed("compute", "POST", f"{prefix}/v2.1/servers")
    assert not allowed("compute", "POST", f"{server}/action")


@pytest.mark.parametrize("service", ["block-storage", "volumev3", "volume"])
def test_a_restricted_credential_manages_volumes_whatever_cinder_calls_itself(service: str) -> None:
    for method, path in (
        ("POST", "/v3/project/volumes"),
        ("GET", "/v3/project/volumes/detail"),
        ("DELETE", "/v3/project/volumes/7c1f"),
        ("POST", "/v3/project/volumes/7c1f/action"),
        ("DELETE", "/v3/project/snapshots/7c1f"),
    ):
        assert allowed(service, method, path), f"{method} {path}"
    assert not allowed(service, "POST", "/v3/project/volume-transfers")


def test_a_restricted_credential_changes_networks_only_for_load_balancers() -> None:
    request = ("network", "POST", "/v2.0/floatingips")
    assert not allowed(*request)
    assert allowed(*request, load_balancers=True)
    assert allowed("load-balancer", "DELETE", "/v2/lbaas/listeners/7c1f", load_balancers=True)
    assert not allowed("network", "DELETE", "/v2.0/networks/7c1f", load_balancers=True)


def test_without_access_rules_a_living_cluster_keeps_its_credential() -> None:
    plain = credential().inputs
    assert plain["name"] == f"{CLUSTER_ID}-kubernetes"
    assert "accessRules" not in plain


def test_another_credential_is_made_before_the_old_one_goes() -> None:
    restricted = {"cloudCredential": {"accessRules": True}}
    octavia = {"addons": {**MINIMAL["addons"], "loadBalancer": "octavia"}}
    made = [
        credential(),
        credential(rotation={"cloudCredential": 2}),
        credential(**restricted),
        credential(**restricted, rotation={"cloudCredential": 2}),
        credential(**restricted, **octavia),
    ]
    # Two at the same time have two names.
    assert len({each.inputs["name"] for each in made}) == len(made)
    assert not any(each.delete_before_replace for each in made)
    assert made[2].inputs["accessRules"]
