"""Alerts about the gateways, the only machines reachable from outside."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# Written by userdata/reboot/reboot.sh every 20 minutes.
REBOOT_METRIC = "openstack_kubernetes_reboot_required"
# Kured ignores this alert, as it does that about nodes.
GATEWAY_REBOOT_OVERDUE = "GatewayRebootOverdue"

_READY_API_SERVERS = 'haproxy_backend_active_servers{gateway!="",proxy="api"}'
_READY_INGRESS = 'haproxy_backend_active_servers{gateway!="",proxy=~"ingress-.+"}'


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return the alerts that fit the number of gateways."""
    return [
        *_services(alone=len(targets.gateways) == 1),
        *_vip(targets),
        *_api_servers(targets.control_plane_count),
        *([_no_ingress()] if targets.ingress else []),
        *([_reboot_overdue()] if targets.reboots else []),
    ]


def _services(*, alone: bool) -> list[Alert]:
    return [
        Alert(
            name="GatewayDown",
            expression='max by (gateway) (up{gateway!=""}) == 0',
            lasting="2m",
            severity="critical" if alone else "warning",
            summary="Prometheus cannot reach gateway {{ $labels.gateway }}.",
            action="Look at the server in OpenStack; to replace it, see 'Lost gateway' in "
            "docs/operations.md.",
        ),
        Alert(
            name="GatewayServiceDown",
            expression='node_systemd_unit_state{gateway!="",state="active",'
            'name=~"(haproxy|keepalived)\\\\.service"} == 0',
            lasting="1m",
            severity="critical" if alone else "warning",
            summary="{{ $labels.name }} is not running on {{ $labels.gateway }}.",
            action="Log in to the gateway and run journalctl -u {{ $labels.name }}. Without this "
            "service the gateway cannot take over.",
        ),
    ]


def _vip(targets: MonitoringTargets) -> list[Alert]:
    holders = targets.vip_holders
    none_or_several = [
        Alert(
            name="GatewayNoneActive",
            expression=f"absent({holders})",
            lasting="1m",
            severity="critical",
            summary=f"No gateway has the address {targets.vip}.",
            action="The API and the ingress cannot be reached from outside. Look at keepalived on "
            "the gateways, and check that Prometheus can reach them.",
        ),
        Alert(
            name="GatewaySeveralActive",
            expression=f"count({holders}) > 1",
            lasting="1m",
            severity="critical",
            summary=f"{{{{ $value }}}} gateways have the address {targets.vip} at the same time.",
            action="They do not receive each other's VRRP packets: look at the security group of "
            "the gateways and at keepalived's journal.",
        ),
    ]
    if len(targets.gateways) == 1:
        return none_or_several
    moved = Alert(
        name="GatewayTookOver",
        # A cluster without any series five minutes ago is new: nothing has moved there.
        expression=f"{holders} unless on (gateway) ({holders} offset 5m) "
        f"and on () (count({holders} offset 5m) > 0)",
        lasting="0m",
        severity="warning",
        summary="{{ $labels.gateway }} has become the active gateway.",
        action="Expected while gateways are replaced or rebooted. Otherwise find out what happened "
        "to the other one: run journalctl -u keepalived -u haproxy there.",
    )
    return [*none_or_several, moved]


def _api_servers(expected: int) -> list[Alert]:
    return [
        Alert(
            name="GatewaySeesControlPlanesDown",
            expression=f"{_READY_API_SERVERS} < {expected} > 0",
            lasting="5m",
            severity="warning",
            summary="HAProxy on {{ $labels.gateway }} finds only {{ $value }} of "
            f"{expected} API servers ready.",
            action="Look at the control planes: kubectl get nodes, and the pods of kube-apiserver.",
        ),
        Alert(
            name="GatewaySeesNoControlPlane",
            expression=f"{_READY_API_SERVERS} == 0",
            lasting="1m",
            severity="critical",
            summary="HAProxy on {{ $labels.gateway }} finds no API server ready.",
            action="If this gateway is the active one, the API cannot be reached from outside. "
            "Look at the pods of kube-apiserver on the control planes.",
        ),
    ]


def _no_ingress() -> Alert:
    return Alert(
        name="GatewaySeesNoIngress",
        expression=f"{_READY_INGRESS} == 0",
        lasting="2m",
        severity="critical",
        summary="HAProxy on {{ $labels.gateway }} finds no node that serves {{ $labels.proxy }}.",
        action="Look at the pods in the namespace ingress, and at their NodePort Service.",
    )


def _reboot_overdue() -> Alert:
    return Alert(
        name=GATEWAY_REBOOT_OVERDUE,
        # Without a gap: a metric that is lost for a moment would begin the week again.
        expression=f'max by (gateway) (max_over_time({REBOOT_METRIC}{{gateway!=""}}[1h])) > 0',
        # As for nodes: a window may come once a week.
        lasting="8d",
        severity="warning",
        summary="{{ $labels.gateway }} has been waiting for its reboot for more than a week.",
        action="Run journalctl -u openstack-kubernetes-reboot there to see what it waits for, such "
        "as an SSH connection that never ends.",
    )
