"""Alerts that fit this cluster, alongside those that come with kube-prometheus-stack."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.alerts.certificates import EXPIRY_METRIC
from addons.monitoring.alerts.etcd_backups import BACKUP_METRIC, PROOF_METRIC
from addons.monitoring.alerts.fleet import FLEET_ALERTS, TARGET_DOWN
from addons.monitoring.alerts.gateways import GATEWAY_REBOOT_OVERDUE, REBOOT_METRIC
from addons.monitoring.alerts.nodes import REBOOT_OVERDUE
from addons.monitoring.alerts.rules import REPLACED_ALERTS, REPLACED_GROUPS, groups, rule_spec
from addons.monitoring.alerts.security_updates import UPDATES_LATE, UPDATES_METRIC
from addons.monitoring.alerts.stacks import STACK_FAILING

__all__ = [
    "BACKUP_METRIC",
    "EXPIRY_METRIC",
    "FLEET_ALERTS",
    "GATEWAY_REBOOT_OVERDUE",
    "PROOF_METRIC",
    "REBOOT_METRIC",
    "REBOOT_OVERDUE",
    "REPLACED_ALERTS",
    "REPLACED_GROUPS",
    "STACK_FAILING",
    "TARGET_DOWN",
    "UPDATES_LATE",
    "UPDATES_METRIC",
    "Alert",
    "groups",
    "rule_spec",
]
