"""The conformance tests' go.mod, the page about a run, and what keeps a run from starting."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from addons import cinder_csi
from tests.conformance import __main__ as command
from tests.conformance import driver, page, programs, suite
from tests.conformance.page import Outcome, Report, Results
from tests.conformance.programs import ConformanceError
from tests.unit.programs import program

CONFORMANCE = suite.SUITES["conformance"]
KUBERNETES = """\
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	k8s.io/api v0.0.0
	github.com/onsi/ginkgo/v2 v2.28.1
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
"""

# As ginkgo writes it: what was not chosen is skipped without a reason.
JUNIT = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed" time="3"></testcase>
<testcase name="[It] [sig-a] one works [Conformance] [sig-a, Conformance]" status="passed"
  time="2.5"></testcase>
<testcase name="[It] [sig-a] two [NodeConformance] [Conformance] [Conformance]" status="failed"
  time="10"><failure message="timed out | waiting&#10;more" type="failed">long</failure></testcase>
<testcase name="[It] [sig-a] three [Conformance] [Conformance]" status="skipped" time="1">
  <skipped message="skipped - no &lt;image&gt;"></skipped></testcase>
<testcase name="[It] [sig-a] four [Serial] [Conformance] [Conformance]" status="skipped" time="0">
  <skipped message="skipped"></skipped></testcase>
<testcase name="[It] [sig-a] another [Slow]" status="skipped" time="0">
  <skipped message="skipped"></skipped></testcase>
</testsuite></testsuites>
"""
NAMES = [
    f"[sig-a] {name} [Conformance]"
    for name in ("one works", "two [NodeConformance]", "three", "four [Serial]")
]


def test_staging_modules_are_the_releases_that_belong_to_the_version() -> None:
    text = programs.module("v1.36.3", KUBERNETES)
    lines = [line for line in text.splitlines() if line]
    assert lines[1:] == [
        "go 1.26.0",
        "godebug default=go1.26",
        "require k8s.io/kubernetes v1.36.3",
        "replace k8s.io/api => k8s.io/api v0.36.3",
        "replace k8s.io/client-go => k8s.io/client-go v0.36.3",
    ]


@pytest.fixture
def outcomes(tmp_path: Path) -> list[Outcome]:
    file = tmp_path / "parallel.xml"
    file.write_text(JUNIT)
    return [*page.read(file).outcomes]


def test_only_what_was_chosen_is_an_outcome(outcomes: list[Outcome]) -> None:
    assert [(each.name, each.status, each.reason) for each in outcomes] == [
        (NAMES[0], "passed", ""),
        (NAMES[1], "failed", "timed out \\| waiting more"),
        (NAMES[2], "skipped", "no &lt;image>"),
    ]


def test_a_suite_that_could_not_begin_has_failed(tmp_path: Path) -> None:
    file = tmp_path / "parallel.xml"
    failed = '<failure message="no nodes"></failure></testcase>'
    file.write_text(JUNIT.replace('time="3"></testcase>', f'time="3">{failed}'))
    assert page.read(file).outcomes[0] == Outcome(
        name="[SynchronizedBeforeSuite]", status="failed", seconds=3, reason="no nodes"
    )


def results(*outcomes: Outcome) -> Results:
    """The results of a run."""
    return Results(day=date(2026, 11, 23), outcomes=outcomes)


def report(*runs: list[Outcome], known: list[str]) -> Report:
    """The report of these runs."""
    named = zip(CONFORMANCE.runs, (results(*run) for run in runs), strict=False)
    return Report(suite="conformance", version="v1.36.3", nodes=5, runs=dict(named), known=known)


def test_the_page_says_what_failed_what_skipped_itself_and_what_did_not_run(
    outcomes: list[Outcome],
) -> None:
    text = report(outcomes, known=NAMES).text()
    assert "\nKubernetes v1.36.3, 5 nodes.\n" in text
    assert "| parallel | 2026-11-23 | 1 | 1 | 1 | 14 |" in text
    assert f"| `{NAMES[1]}` | timed out \\| waiting more |" in text
    assert "| 1 | no &lt;image> |" in text
    assert f"## Not run\n\n- `{NAMES[3]}`\n" in text


def test_a_cluster_conforms_only_if_every_test_has_passed(outcomes: list[Outcome]) -> None:
    passed = [outcomes[0]]
    serial = [Outcome(name=NAMES[3], status="passed", seconds=1)]
    both = [NAMES[0], NAMES[3]]
    assert report(passed, serial, known=both).passed()
    assert not report(passed, known=both).passed()
    assert not report(outcomes, serial, known=both).passed()
    assert not report([], known=[]).passed()


def test_tests_of_a_driver_may_skip_what_it_cannot_do_but_none_may_fail(
    outcomes: list[Outcome],
) -> None:
    passed, failed, skipped = outcomes
    one = replace(report(known=[]), suite="volumes", left_out={"slow|old": "because"})

    def passes(*volumes: Outcome) -> bool:
        return replace(one, runs={"volumes": results(*volumes)}).passed()

    assert passes(passed, skipped)
    assert not passes(passed, failed)
    # A run that selects nothing proves nothing.
    assert not passes(skipped)
    assert not one.passed()
    assert "| `slow\\|old` | because |" in one.text()
    assert "Cilium does not match" in replace(one, suite="network-policies").text()


@pytest.mark.parametrize("snapshots", [True, False])
def test_snapshots_are_tested_where_the_cluster_has_them(tmp_path: Path, snapshots: bool) -> None:
    written = yaml.safe_load(driver.write(tmp_path / "new", snapshots=snapshots).read_text())
    assert ("SnapshotClass" in written) == snapshots
    assert ("snapshotDataSource" in written["DriverInfo"]["Capabilities"]) == snapshots
    assert written["DriverInfo"]["Name"] == cinder_csi.DRIVER


def fake(folder: Path, name: str, script: str) -> None:
    """A program that does what the script says."""
    program(folder / name, f"#!/bin/sh\n{script}\n")


def test_each_run_leaves_its_file_and_serial_tests_run_alone(tmp_path: Path) -> None:
    results = tmp_path / "results"
    fake(
        tmp_path, "ginkgo",
        'echo "$@" >>../../words; for word; do case $word in --junit-report=*)'
        ' echo "<testsuites failures=\\"1\\"/>" >"${word#*=}";; esac; done; exit 1',
    )  # fmt: skip
    for each in suite.SUITES.values():
        ran = suite.run(
            each, tmp_path, results, tmp_path / "kubeconfig", 4, "--more=1",
            left_out=["server in CIDR|slow"] if each.csi_driver else [],
        )  # fmt: skip
        assert list(ran) == list(each.runs)
    said = (tmp_path / "words").read_text().splitlines()
    parallel, serial, certified, policies, storage = said
    assert "--procs=4 --label-filter=Conformance && !(Serial || Disruptive) --timeout" in parallel
    assert "--procs=1 --label-filter=Conformance && (Serial || Disruptive) " in serial
    assert "--procs=1 --label-filter=Conformance --timeout" in certified
    assert "--procs=4 --label-filter=Feature: consistsOf NetworkPolicy --skip=access" in policies
    assert "--skip=server in CIDR|slow --timeout" in storage.replace("External.Storage ", "")
    assert "--label-filter=!(Serial || Disruptive) --focus=External.Storage " in storage
    assert parallel.endswith(f"-- --provider=skeleton --kubeconfig={tmp_path}/kubeconfig --more=1")


def test_one_run_alone_keeps_the_results_of_the_others(tmp_path: Path) -> None:
    fake(
        tmp_path, "ginkgo",
        'for word; do case $word in --junit-report=*)'
        ' echo "<testsuites/>" >"${word#*=}";; esac; done',
    )  # fmt: skip
    words = (CONFORMANCE, tmp_path, tmp_path / "results", tmp_path / "kubeconfig", 4)
    assert list(suite.run(*words, only="serial")) == ["serial"]
    outcome = results(Outcome(name=NAMES[0], status="passed", seconds=1))
    later = report(known=[])
    text = replace(later, runs={"serial": outcome, "parallel": outcome}).text()
    assert text.index("| parallel |") < text.index("| serial |")


def test_a_run_that_leaves_no_file_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    results = tmp_path / "results"
    old = suite.junit(results, "parallel")
    old.parent.mkdir(parents=True)
    old.write_text(JUNIT)
    fake(tmp_path, "ginkgo", "echo it broke; exit 1")
    with pytest.raises(ConformanceError, match=r"parallel tests did not run(.|\n)*it broke"):
        list(suite.run(CONFORMANCE, tmp_path, results, tmp_path / "kubeconfig", 4))


def test_a_run_that_ends_early_is_no_success(tmp_path: Path) -> None:
    """A process of ginkgo's that was killed: its tests are not in the report."""
    fake(
        tmp_path, "ginkgo",
        'for word; do case $word in --junit-report=*)'
        ' echo "<testsuites failures=\\"0\\"/>" >"${word#*=}";; esac; done; exit 137',
    )  # fmt: skip
    with pytest.raises(ConformanceError, match="ginkgo ended with 137 without a failed test"):
        list(suite.run(CONFORMANCE, tmp_path, tmp_path / "results", tmp_path / "kubeconfig", 4))


def test_without_a_cluster_one_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.main(["conformance", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    (tmp_path / "kubeconfig").touch()
    fake(tmp_path, "kubectl", "echo connection refused >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert command.main(["conformance", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 2
    assert "does not answer: connection refused" in capsys.readouterr().err
