"""The watching of the fleet: the login at each Prometheus, and how it is asked."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from pathlib import Path

import pytest

from addons.monitoring import CHART, PROMETHEUS_URL, alerts, dashboards
from commands.fleet.__main__ import main
from config import federation
from tests.unit.fleet import Fleet
from tests.unit.kubernetes_objects import Objects
from tests.unit.monitoring_targets import TARGETS

NAMESPACE = "/api/v1/namespaces/monitoring"
SECRETS = f"{NAMESPACE}/secrets"
CONFIGS = "/apis/monitoring.coreos.com/v1alpha1/namespaces/monitoring/scrapeconfigs"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SERVICE = "kube-prometheus-stack-prometheus"


def monitored() -> Objects:
    """A cluster with `addons.monitoring`."""
    made = Objects("monitoring")
    made.kept[f"{NAMESPACE}/services/{SERVICE}"] = {"metadata": {"name": SERVICE}}
    return made


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fleet", "monitoring", *arguments])
    return main()


@pytest.fixture
def admin(fleet: Fleet) -> Objects:
    """The admin cluster, with `addons.monitoring.fleet`."""
    made = monitored()
    made.kept[f"{NAMESPACE}/configmaps/dashboard-fleet"] = {"metadata": {"name": "dashboard-fleet"}}
    fleet.api("admin", made.handler())
    return made


def test_every_cluster_is_asked_through_its_api_with_a_token_for_one_service(
    fleet: Fleet,
    admin: Objects,
    pem: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop = monitored()
    url = fleet.api("shop", shop.handler())
    assert run(monkeypatch) == 0
    # Its own cluster is one of the fleet.
    assert set(admin.below(SECRETS)) == set(admin.below(CONFIGS)) == {"fleet-admin", "fleet-shop"}
    data = admin.below(SECRETS)["fleet-shop"]["data"]
    [token] = shop.tokens
    assert shop.tokens[token].endswith(":monitoring")
    assert b64decode(data["token"]).decode() == token
    assert b64decode(data["ca.crt"]) == pem.read_bytes()
    spec = admin.below(CONFIGS)["fleet-shop"]["spec"]
    assert spec["staticConfigs"] == [
        {"targets": [url.removeprefix("https://")], "labels": {"cluster": "shop"}}
    ]
    own = admin.below(CONFIGS)["fleet-admin"]["spec"]["staticConfigs"][0]
    assert own == {"targets": ["kubernetes.default.svc"], "labels": {"cluster": "admin"}}
    [role] = (each for each in shop.below(f"{RBAC}/clusterroles").values() if "rules" in each)
    [rule] = role["rules"]
    assert (rule["resources"], rule["verbs"]) == (["services/proxy"], ["get"])
    # The API server takes the port for a part of the name.
    assert spec["metricsPath"] == f"{NAMESPACE}/services/{rule['resourceNames'][0]}/proxy/federate"
    bindings = [path for path in shop.kept if "bindings/" in path]
    name = "openstack-kubernetes-fleet:monitoring"
    assert bindings == [f"{RBAC}/namespaces/monitoring/rolebindings/{name}"]
    out, err = capsys.readouterr()
    assert "shop: a new token expires" in out
    assert token.split(".")[1] not in out + err


def test_the_state_of_the_admin_cluster_may_be_in_another_backend(
    fleet: Fleet,
    admin: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet.api("shop", monitored().handler())
    outputs = fleet.folder / "stack-output-admin"
    file = fleet.folder / "kubeconfig"
    file.write_text(json.loads(outputs.read_text())["kubeconfig"])
    outputs.unlink()
    fleet.gone("admin")
    assert run(monkeypatch) == 1
    assert "a kubeconfig of it with `--kubeconfig`" in capsys.readouterr().err
    assert run(monkeypatch, "--kubeconfig", str(file)) == 0
    # Its own cluster is one of the fleet all the same, and not gone.
    assert set(admin.below(SECRETS)) == {"fleet-admin", "fleet-shop"}
    assert run(monkeypatch, "--kubeconfig", str(file), "--remove-gone", "shop") == 0
    assert set(admin.below(SECRETS)) == {"fleet-admin", "fleet-shop"}
    file.unlink()
    capsys.readouterr()
    assert run(monkeypatch, "--kubeconfig", str(file)) == 1
    assert str(file) in capsys.readouterr().err


def test_a_cluster_without_prometheus_is_left_out_and_one_that_is_gone_removed_on_demand(
    fleet: Fleet,
    admin: Objects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet.api("bare", Objects("monitoring").handler())
    shop = monitored()
    fleet.api("shop", shop.handler())
    assert run(monkeypatch) == 0
    assert "bare: left out: it has no `addons.monitoring`" in capsys.readouterr().out
    # Whoever names it meant it.
    assert run(monkeypatch, "bare") == 1
    assert "bare: left out: it has no `addons.monitoring`" in capsys.readouterr().err
    del shop.kept[f"{NAMESPACE}/services/{SERVICE}"]
    assert run(monkeypatch) == 0
    said = "shop: it has no `addons.monitoring`; `--remove-gone` removes the Secret fleet-shop\n"
    assert said in capsys.readouterr().out
    assert run(monkeypatch, "--remove-gone") == 0
    assert set(admin.below(SECRETS)) == set(admin.below(CONFIGS)) == {"fleet-admin"}


def test_without_the_add_on_nothing_is_written(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = monitored()
    fleet.api("admin", admin.handler())
    assert run(monkeypatch) == 1
    said = "admin has no fleet dashboard: set `addons.monitoring.fleet` there and run `pulumi up`\n"
    assert capsys.readouterr().err == said
    assert not admin.tokens


def test_the_command_and_the_add_on_mean_the_same() -> None:
    # As the chart names the Service.
    assert f"{CHART.name}-prometheus" == federation.SERVICE
    assert PROMETHEUS_URL == "http://kube-prometheus-stack-prometheus.monitoring:9090"
    names = {f"dashboard-{each.name}" for each in dashboards.dashboards(TARGETS)}
    assert federation.DASHBOARD in names
    taken = {each.partition("{")[0] for each in federation.SELECTORS}
    assert {alerts.EXPIRY_METRIC, alerts.BACKUP_METRIC, alerts.PROOF_METRIC} <= taken
