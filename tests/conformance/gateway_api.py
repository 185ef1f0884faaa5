"""Gateway API's own conformance tests, on a GatewayClass of a cluster, and the page about them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import yaml

import versions
from lab.until import until
from tests.conformance import programs
from tests.conformance.live import FOLDER, PAGES, kubectl, run_tests
from tests.conformance.programs import ConformanceError

NAME = "gateway-api"
# What Traefik's chart calls it.
GATEWAY_CLASS = "traefik"
API = "sigs.k8s.io/gateway-api"
TESTS = f"{API}/conformance"
PROGRAM = "gateway-api.test"
BUNDLE_VERSION = "gateway.networking.k8s.io/bundle-version"
PROFILES = ("GATEWAY-HTTP", "GATEWAY-GRPC", "GATEWAY-TLS")
# Older ones take their options in another way.
OLDEST = (1, 6)
# Their tests need listeners on other ports than the two that reach the cluster. What is not claimed
# does not run; without the others, tests of their absence would run instead.
_NOT_CLAIMED = frozenset({"GatewayPort8080"})
_NOT_TESTED = _NOT_CLAIMED | {"TLSRouteModeTerminate", "TLSRouteModeMixed"}
_PORTS = "it needs a listener on another port than 80 and 443, which the gateways do not forward"
SKIPPED: Mapping[str, str] = {
    "HTTPRouteMultipleGateways": (
        "Traefik answers for all Gateways at one address, so each serves the routes of the others;"
        " its own run of the suite skips the test, too"
    ),
    "HTTPRouteListenerPortMatching": _PORTS,
    "TLSRouteListenerTerminateSupportedKinds": _PORTS,
    "TLSRouteTerminateSimpleSameNamespace": _PORTS,
    "TLSRouteMixedTerminationSameNamespace": _PORTS,
}
# The longest of the suite's own waits are minutes; a run takes about half an hour.
LONGEST = "2h"
# The suite writes its report before the tests have run that run in parallel.
MAIN = f"""\
package conformance_test

import (
	"testing"

	"{TESTS}"
	"{TESTS}/tests"
)

func TestConformance(t *testing.T) {{
	for i := range tests.ConformanceTests {{
		tests.ConformanceTests[i].Parallel = false
	}}
	conformance.RunConformance(t)
}}
"""
# What a run that was interrupted has left would keep the next one from starting.
_NAMESPACES = tuple(
    f"gateway-conformance-{each}" for each in ("infra", "app-backend", "web-backend")
)
_FAILED = re.compile(r"^ {4}--- FAIL: TestConformance/(\w+) ", re.MULTILINE)


def check(kubeconfig: Path, note: str) -> bool:
    """Run the suite and write its page; tells whether it has passed."""
    version, features = served(kubeconfig)
    folder = FOLDER / f"{NAME}-{version}"
    build(version, folder)
    remove = ("delete", "namespace", *_NAMESPACES, "--ignore-not-found")
    kubectl(kubeconfig, *remove, "--request-timeout=10m")
    report, failed = run(folder, kubeconfig, features)
    page = PAGES / f"{NAME}.md"
    page.write_text(text(report, failed, datetime.now(UTC).date(), note))
    print(f"{page}; report and log: {folder}")
    return passed(report) and not failed


def served(kubeconfig: Path) -> tuple[str, list[str]]:
    """The version of Gateway API in the cluster, and the features that its class supports.

    Raises:
        ConformanceError: Gateway API is not served, or by no version that can be tested.
    """
    words = ("get", "--ignore-not-found", "-o", "json")
    crd = kubectl(kubeconfig, *words, "crd", "gateways.gateway.networking.k8s.io")
    if not crd:
        raise ConformanceError("there are no CRDs of Gateway API in the cluster: install them")
    found = kubectl(kubeconfig, *words, "gatewayclass", GATEWAY_CLASS)
    if not found:
        raise ConformanceError(
            f"there is no GatewayClass {GATEWAY_CLASS}: set addons.ingress.gatewayApi"
        )
    version: str = json.loads(crd)["metadata"]["annotations"][BUNDLE_VERSION]
    if tuple(map(int, version.removeprefix("v").split(".")[:2])) < OLDEST:
        raise ConformanceError(
            f"the CRDs of Gateway API are {version}; the tests can be run from"
            f" v{'.'.join(map(str, OLDEST))} on"
        )
    features: list[str] = []

    def accepted() -> bool:
        text = kubectl(kubeconfig, *words, "gatewayclass", GATEWAY_CLASS)
        status = json.loads(text).get("status", {})
        features[:] = [each["name"] for each in status.get("supportedFeatures", [])]
        return bool(features)

    try:
        until(accepted, f"the features of the GatewayClass {GATEWAY_CLASS}", 60)
    except AssertionError as error:
        raise ConformanceError(f"Traefik does not answer for its GatewayClass: {error}") from error
    return version, features


def module(version: str, own: str) -> str:
    """Write a go.mod that needs the suite, from its own, which finds the API in its repository."""
    go = next(line for line in own.splitlines() if line.startswith("go "))
    return (
        f"module conformance.invalid/{NAME}\n\n{go}\n\nrequire {TESTS} {version}\n\n"
        f"require {API} {version}\n"
    )


def build(version: str, folder: Path) -> Path:
    """Build what is missing; returns the program."""
    programs.require(folder, f"{TESTS}@{version}", lambda own: module(version, own))
    (folder / "conformance_test.go").write_text(MAIN)
    return programs.program(folder, PROGRAM, ".", *programs.TEST)


def run(
    folder: Path, kubeconfig: Path, features: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Run the suite; returns its report, and the tests that have failed.

    The report leaves out tests that belong to no profile.

    Raises:
        ConformanceError: there is no report, or the tests did not run to their end.
    """
    options, report, log = folder / "options.yaml", folder / "report.yaml", folder / "log"
    chosen = {
        "gatewayClassName": GATEWAY_CLASS,
        "supportedFeatures": sorted({*features} - _NOT_CLAIMED),
        "skipTests": sorted(SKIPPED),
        "conformanceProfiles": list(PROFILES),
        "cleanupBaseResources": True,
        "cleanupTestResources": True,
        # A report must have all of them.
        "implementation": {
            "organization": "openstack-kubernetes",
            "project": "openstack-kubernetes",
            "url": "https://traefik.io",
            "version": versions.PROGRAM,
            "contact": ["its operators"],
        },
    }
    options.write_text(yaml.safe_dump(chosen))
    command: list[str | Path] = [
        folder / "bin" / PROGRAM, "-test.v", f"-test.timeout={LONGEST}",
        f"--conformance-options-file={options}", f"--report-output={report}",
    ]  # fmt: skip
    print(f"running the tests, log: {log}", flush=True)
    status = run_tests(command, kubeconfig, log, report, "the tests wrote no report")
    failed = sorted({*_FAILED.findall(log.read_text(errors="replace"))})
    if status != 0 and not failed:
        raise ConformanceError(f"the tests ended early, with status {status}: see {log}")
    return yaml.safe_load(report.read_text()), failed


def passed(report: Mapping[str, Any]) -> bool:
    """True if tests of the core have passed in every profile, and none has failed."""
    return len(report["profiles"]) == len(PROFILES) and all(
        (status["statistics"]["Passed"] or level != "core") and not status["statistics"]["Failed"]
        for _, level, status in _statuses(report)
    )


def text(report: Mapping[str, Any], failed: Sequence[str], day: date, note: str) -> str:
    """The page."""
    where = (
        f"{day:%Y-%m-%d}, Gateway API {report['gatewayAPIVersion']}"
        f" ({report['gatewayAPIChannel']} channel), openstack-kubernetes"
        f" {report['implementation']['version']}."
    )
    lines = [
        "# Gateway API",
        "",
        f"Written by `make {NAME}`, which runs the conformance tests of Gateway API on Traefik",
        "in the cluster of `KUBECONFIG`, from outside, through the gateways.",
        "[How to run it](operations/environments.md#conformance).",
        "",
        f"{where} {note}".strip(),
        "",
        "| profile | level | passed | failed | skipped |",
        "|---|---|---|---|---|",
    ]
    all_failed, skipped, supported = {*failed}, set(), set()
    for profile, level, status in _statuses(report):
        numbers = [status["statistics"][each] for each in ("Passed", "Failed", "Skipped")]
        lines.append(f"| {profile} | {level} | {' | '.join(map(str, numbers))} |")
        all_failed |= {*status.get("failedTests", [])}
        skipped |= {*status.get("skippedTests", [])}
        supported |= {*status.get("supportedFeatures", [])}
    if all_failed:
        lines += ["", "## Failed", "", *(f"- `{name}`" for name in sorted(all_failed))]
    if skipped:
        lines += ["", "## Skipped", ""]
        lines += [f"- `{name}`: {SKIPPED[name]}." for name in sorted(skipped)]
    lines += ["", "## Features", ""]
    lines += [
        "Beyond the core, these were tested: "
        + ", ".join(f"`{name}`" for name in sorted(supported - _NOT_TESTED))
        + ". Traefik has these as well, but their tests need listeners on other ports than 80 and"
        " 443, which the gateways do not forward: "
        + ", ".join(f"`{name}`" for name in sorted(_NOT_TESTED))
        + "."
    ]
    return "\n".join(lines) + "\n"


def _statuses(report: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for profile in sorted(report["profiles"], key=lambda each: str(each["name"])):
        for level in ("core", "extended"):
            if level in profile:
                yield profile["name"], level, profile[level]
