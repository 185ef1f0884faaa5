"""The metrics of a cluster that the Prometheus of an admin cluster takes, for its fleet."""

NAMESPACE = "monitoring"
"""Of Prometheus in every cluster, and of what the admin cluster's Prometheus reads."""
SERVICE = "kube-prometheus-stack-prometheus"
PORT = 9090
DASHBOARD = "dashboard-fleet"
"""The ConfigMap that shows that a cluster watches others."""

JOB = "fleet"
"""Of the targets of Prometheus; their label `cluster` is the stack."""
PREFIX = "fleet_"
"""Of metrics in the admin cluster: its own alerts and dashboards are not about other clusters."""

SELECTORS = (
    'kubernetes_build_info{job="apiserver"}',
    "kube_node_info",
    'kube_node_status_condition{condition="Ready",status="true"}',
    "openstack_kubernetes_certificate_expiry_timestamp_seconds",
    "openstack_kubernetes_etcd_backup_timestamp_seconds",
    "openstack_kubernetes_etcd_backup_proved_timestamp_seconds",
    'ALERTS{alertstate="firing"}',
)
"""The metrics that are taken."""
