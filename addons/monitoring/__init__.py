"""Monitoring: Prometheus, Alertmanager and Grafana, with the alerts and dashboards of a cluster."""

from addons.monitoring.chart import CHART, GRAFANA_SECRET, NAMESPACE, PROMETHEUS_URL, install

__all__ = ["CHART", "GRAFANA_SECRET", "NAMESPACE", "PROMETHEUS_URL", "install"]
