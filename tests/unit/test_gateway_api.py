"""Gateway API's conformance tests: their go.mod, their options, the page about a run."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance import gateway_api, programs
from tests.conformance.programs import ConformanceError
from tests.unit.programs import program

DAY = date(2026, 11, 25)
SUITE = """\
module sigs.k8s.io/gateway-api/conformance

go 1.26.0

replace sigs.k8s.io/gateway-api => ../
"""
# Writes down its options, and the report that is there.
PROGRAM = """\
#!/bin/sh
for word; do
  case $word in
    --conformance-options-file=*) cp "${word#*=}" used ;;
    --report-output=*) [ ! -e written ] || cp written "${word#*=}" ;;
  esac
done
cat failures 2>/dev/null || echo it broke
exit $(cat status 2>/dev/null || echo 0)
"""


def status(passed: int, failed: int = 0, skipped: int = 0, **more: Any) -> dict[str, Any]:
    statistics = {"Passed": passed, "Failed": failed, "Skipped": skipped}
    return {"statistics": statistics, **more}


def report(**http: Any) -> dict[str, Any]:
    profiles = [
        {"name": "GATEWAY-HTTP", "core": status(33), **http},
        {"name": "GATEWAY-GRPC", "core": status(12)},
        {"name": "GATEWAY-TLS", "core": status(11)},
    ]
    return {
        "gatewayAPIVersion": "v1.6.1",
        "gatewayAPIChannel": "standard",
        "implementation": {"version": "0.1.0"},
        "profiles": profiles,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose program has been built."""
    program(tmp_path / "bin" / gateway_api.PROGRAM, PROGRAM)
    return tmp_path


def test_the_suite_is_built_with_the_api_of_its_version() -> None:
    lines = gateway_api.module("v1.6.1", SUITE).splitlines()
    assert [line for line in lines if line][1:] == [
        "go 1.26.0",
        "require sigs.k8s.io/gateway-api/conformance v1.6.1",
        "require sigs.k8s.io/gateway-api v1.6.1",
    ]


def test_features_on_other_ports_are_not_claimed(folder: Path) -> None:
    (folder / "written").write_text(yaml.safe_dump(report()))
    features = ["HTTPRouteMethodMatching", "GatewayPort8080", "Gateway"]
    assert gateway_api.run(folder, folder / "kubeconfig", features) == (report(), [])
    used = yaml.safe_load((folder / "used").read_text())
    assert used["supportedFeatures"] == ["Gateway", "HTTPRouteMethodMatching"]
    assert used["gatewayClassName"] == "traefik"


def test_a_run_without_a_report_is_an_error_with_the_end_of_its_log(folder: Path) -> None:
    # Of an earlier run.
    (folder / "report.yaml").write_text(yaml.safe_dump(report()))
    with pytest.raises(ConformanceError, match=r"wrote no report(.|\n)*it broke"):
        gateway_api.run(folder, folder / "kubeconfig", [])


def test_tests_that_no_profile_counts_fail_as_well(folder: Path) -> None:
    (folder / "written").write_text(yaml.safe_dump(report()))
    (folder / "status").write_text("1")
    with pytest.raises(ConformanceError, match="ended early, with status 1"):
        gateway_api.run(folder, folder / "kubeconfig", [])
    (folder / "failures").write_text("    --- FAIL: TestConformance/HTTPRouteDisallowedKind (2s)\n")
    _, failed = gateway_api.run(folder, folder / "kubeconfig", [])
    assert failed == ["HTTPRouteDisallowedKind"]
    assert "- `HTTPRouteDisallowedKind`\n" in gateway_api.text(report(), failed, DAY, "")


def test_a_failed_test_or_a_profile_without_tests_is_no_pass() -> None:
    assert gateway_api.passed(report())
    assert gateway_api.passed(report(core=status(32, skipped=1)))
    assert not gateway_api.passed(report(extended=status(12, failed=1)))
    assert not gateway_api.passed(report(core=status(0)))
    assert gateway_api.passed(report(extended=status(0, skipped=3)))
    half = report()
    assert not gateway_api.passed({**half, "profiles": half["profiles"][:2]})


def test_the_page_says_what_failed_and_why_tests_were_skipped() -> None:
    core = status(31, 1, 1, failedTests=["One"], skippedTests=["HTTPRouteMultipleGateways"])
    extended = status(2, supportedFeatures=["HTTPRouteMethodMatching"])
    page = gateway_api.text(report(core=core, extended=extended), [], DAY, "On a test cluster.")
    assert "2026-11-25, Gateway API v1.6.1 (standard channel), openstack-kubernetes 0.1.0." in page
    assert "0.1.0. On a test cluster.\n" in page
    assert "| GATEWAY-HTTP | core | 31 | 1 | 1 |\n| GATEWAY-HTTP | extended | 2 | 0 | 0 |" in page
    assert "## Failed\n\n- `One`\n" in page
    assert "- `HTTPRouteMultipleGateways`: Traefik answers for all Gateways" in page
    assert "`HTTPRouteMethodMatching`" in page


@pytest.mark.parametrize(
    ("crd", "gateway_class", "why"),
    [
        (False, True, r"no CRDs of Gateway API in the cluster: install them"),
        (True, False, r"no GatewayClass traefik: set addons\.ingress\.gatewayApi"),
    ],
)
def test_a_cluster_without_gateway_api_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, crd: bool, gateway_class: bool, why: str
) -> None:
    found = {"crd": crd, "gatewayclass": gateway_class}
    monkeypatch.setattr(gateway_api, "kubectl", lambda _, *words: "{}" if found[words[4]] else "")
    with pytest.raises(programs.ConformanceError, match=why):
        gateway_api.served(tmp_path)


def test_version_and_features_are_the_clusters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    annotations = {"gateway.networking.k8s.io/bundle-version": "v1.6.1"}
    shown = {
        "crd": {"metadata": {"annotations": annotations}},
        "gatewayclass": {"status": {"supportedFeatures": [{"name": "Gateway"}]}},
    }
    monkeypatch.setattr(gateway_api, "kubectl", lambda _, *words: json.dumps(shown[words[4]]))
    assert gateway_api.served(tmp_path) == ("v1.6.1", ["Gateway"])
    annotations["gateway.networking.k8s.io/bundle-version"] = "v1.5.1"
    with pytest.raises(ConformanceError, match=r"are v1\.5\.1; the tests can be run from v1\.6 on"):
        gateway_api.served(tmp_path)
