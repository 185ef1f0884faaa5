"""Scrape targets, alerts, dashboards and firewall rules of the monitoring."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from addons.monitoring import alerts, dashboards, scrape_configs
from addons.monitoring.alerts import Alert
from addons.monitoring.targets import MonitoringTargets
from config import federation
from config.security_groups import METRICS, rules
from tests.runbooks import runbook
from tests.unit.clusters import cluster
from tests.unit.monitoring_targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]


def every(targets: MonitoringTargets = TARGETS) -> Iterator[Alert]:
    for group in alerts.groups(targets).values():
        yield from group


def names(targets: MonitoringTargets) -> set[str]:
    return {alert.name for alert in every(targets)}


def test_each_alert_has_a_unique_name_and_says_what_to_do() -> None:
    found = list(every())
    assert len({alert.name for alert in found}) == len(found) > 15
    for alert in found:
        assert re.fullmatch(r"\d+[mhd]", alert.lasting), alert.name
        assert alert.summary.endswith("."), alert.name
        assert alert.action.endswith("."), alert.name


def test_each_runbook_that_an_alert_names_exists() -> None:
    for alert in every():
        if "operations.md" in alert.action:
            for heading in re.findall(r"'([A-Z][^']+)'", alert.action):
                assert runbook(heading), alert.name


def test_brackets_and_quotes_of_queries_are_balanced() -> None:
    queries = [alert.expression for alert in every()]
    queries += [
        query
        for dashboard in dashboards.dashboards(TARGETS)
        for panel in dashboard.panels
        for query in panel.queries.values()
    ]
    for query in queries:
        for left, right in ("()", "{}", "[]"):
            assert query.count(left) == query.count(right), query
        assert query.count('"') % 2 == 0, query


def test_thresholds_fit_the_cluster() -> None:
    five = replace(
        TARGETS, control_plane_count=5, etcd_heartbeat=100, certificate_seconds=90 * 86400
    )
    by_name = {alert.name: alert.expression for alert in every(five)}
    assert by_name["EtcdMemberDown"].endswith("< 5")
    assert by_name["EtcdQuorumAtRisk"].endswith("<= 3")
    assert by_name["EtcdSlowFsync"].endswith("> 0.05")
    # A renewal begins when a third of the life is left.
    assert by_name["CertificateExpires"].endswith(f"< {15 * 86400}")
    # A kubelet renews its own when as little as a tenth is left.
    assert '{certificate!~"/var/lib/kubelet/.*"}' in by_name["CertificateExpires"]
    assert 'address="10.8.0.10"' in by_name["GatewayNoneActive"]


@pytest.mark.parametrize(
    ("targets", "missing"),
    [
        (replace(TARGETS, control_plane_count=1), {"EtcdMemberDown", "EtcdQuorumAtRisk"}),
        (TARGETS, {"EtcdMemberDown"}),
        (replace(TARGETS, gateways={"demo-gateway-0": "10.8.0.11"}), {"GatewayTookOver"}),
        (replace(TARGETS, ingress=False), {"GatewaySeesNoIngress"}),
        (replace(TARGETS, snapshot_jobs=()), {"SnapshotsLate"}),
        (replace(TARGETS, stack_retries=None), {alerts.STACK_FAILING}),
        (replace(TARGETS, reboots=False), {"NodeRebootOverdue", "GatewayRebootOverdue"}),
        (replace(TARGETS, fleet=False), {*alerts.FLEET_ALERTS, alerts.TARGET_DOWN}),
        (
            replace(TARGETS, backup_places=()),
            {
                "EtcdBackupLate",
                "EtcdBackupMissing",
                "EtcdBackupUnproved",
                "EtcdBackupNeverProved",
            },
        ),
    ],
)
def test_there_is_no_alert_for_what_cannot_happen(
    targets: MonitoringTargets, missing: set[str]
) -> None:
    assert missing <= names(replace(TARGETS, control_plane_count=5))
    assert not missing & names(targets)


def test_a_backup_is_late_after_two_intervals() -> None:
    by_name = {alert.name: alert for alert in every(replace(TARGETS, backup_hours=12))}
    assert by_name["EtcdBackupLate"].expression.endswith(f"> {24 * 3600}")
    assert by_name["EtcdBackupMissing"].lasting == "24h"
    assert 'place="bucket"' in by_name["EtcdBackupMissing"].expression
    on_disk = {alert.name: alert for alert in every(replace(TARGETS, backup_places=("disk",)))}
    assert 'place="disk"' in on_disk["EtcdBackupMissing"].expression


def test_a_proof_is_late_after_two_days_and_the_interval_of_backups() -> None:
    by_name = {alert.name: alert for alert in every(replace(TARGETS, backup_hours=12))}
    late = f"time() - max({alerts.PROOF_METRIC}) > {60 * 3600}"
    assert by_name["EtcdBackupUnproved"].expression == late
    assert by_name["EtcdBackupNeverProved"].expression == f"absent({alerts.PROOF_METRIC})"
    assert by_name["EtcdBackupNeverProved"].lasting == "60h"


def test_what_is_shown_of_other_clusters_is_what_is_taken_from_them() -> None:
    taken = {each.partition("{")[0] for each in federation.SELECTORS}
    [fleet] = [each for each in dashboards.dashboards(TARGETS) if each.name == "fleet"]
    shown = [query for panel in fleet.panels for query in panel.queries.values()]
    shown += [alert.expression for alert in alerts.groups(TARGETS)["fleet"]]
    assert {name for query in shown for name in re.findall(r"\bfleet_(\w+)", query)} == taken
    # Those of this cluster alone are about no other one.
    others = [each for each in dashboards.dashboards(TARGETS) if each != fleet]
    assert not [each.name for each in others if federation.PREFIX in each.text()]


def test_there_is_no_dashboard_of_a_fleet_that_is_not_watched() -> None:
    found = dashboards.dashboards(replace(TARGETS, fleet=False))
    assert {each.name for each in found} == {"cluster", "etcd", "gateways"}


def test_the_loss_of_the_only_gateway_is_critical() -> None:
    alone = replace(TARGETS, gateways={"demo-gateway-0": "10.8.0.11"})
    severities = {alert.name: alert.severity for alert in every(alone)}
    assert severities["GatewayDown"] == "critical"


def test_every_job_scrapes_every_gateway() -> None:
    specs = scrape_configs.scrape_specs(TARGETS)
    assert {spec["jobName"] for spec in specs.values()} == {"haproxy", "node-exporter"}
    for spec in specs.values():
        assert [each["labels"]["gateway"] for each in spec["staticConfigs"]] == list(
            TARGETS.gateways
        )
    [first, _] = specs["gateways-haproxy"]["staticConfigs"]
    assert first["targets"] == ["10.8.0.11:8405"]


def test_panels_of_a_dashboard_do_not_overlap() -> None:
    for dashboard in dashboards.dashboards(TARGETS):
        document = json.loads(dashboard.text())
        assert document["uid"] == f"openstack-kubernetes-{dashboard.name}"
        taken: set[tuple[int, int]] = set()
        for panel in document["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not taken & cells, panel["title"]
            assert max(x for x, _ in cells) < 24, panel["title"]
            taken |= cells


class TestSecurityGroups:
    @staticmethod
    def rules(*, monitored: bool) -> set[tuple[str, str, int | None]]:
        found = rules(cluster(addons={"monitoring": {"enabled": monitored}}))
        assert len({rule.key for rule in found}) == len(found)
        return {(rule.group, rule.source, rule.first) for rule in found}

    def test_only_nodes_reach_metrics(self) -> None:
        opened = self.rules(monitored=True) - self.rules(monitored=False)
        assert opened == {(group, "node", port) for group, port, _ in METRICS}

    def test_without_monitoring_only_gateways_reach_a_gateways_status(self) -> None:
        status = {rule for rule in self.rules(monitored=False) if rule[2] == 8405}
        assert status == {("gateway", "gateway", 8405)}
