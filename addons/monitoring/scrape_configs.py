"""Scrape targets outside of Kubernetes: the gateways."""

from typing import Any

from addons.monitoring.targets import MonitoringTargets
from config import ports

# Rules about the nodes' exporters find those of the gateways by the same job name.
_PORTS_BY_JOB = {"haproxy": ports.GATEWAY_STATUS, "node-exporter": ports.NODE_EXPORTER}


def scrape_specs(targets: MonitoringTargets) -> dict[str, dict[str, Any]]:
    """Return the `spec` of a ScrapeConfig for each job, by the object's name."""
    return {
        f"gateways-{job}": {
            "jobName": job,
            "staticConfigs": [
                {
                    "targets": [f"{address}:{port}"],
                    "labels": {"gateway": name, "instance": name},
                }
                for name, address in targets.gateways.items()
            ],
        }
        for job, port in _PORTS_BY_JOB.items()
    }
