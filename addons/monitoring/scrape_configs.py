"""What Prometheus asks outside of Kubernetes: the gateways."""

from typing import Any

from addons.monitoring.targets import MonitoringTargets
from config.security_groups import GATEWAY_STATUS_PORT, NODE_EXPORTER_PORT

# By the job of the nodes' exporters, what is targets on nodes is targets on gateways, too.
JOBS = {"haproxy": GATEWAY_STATUS_PORT, "node-exporter": NODE_EXPORTER_PORT}


def scrape_specs(targets: MonitoringTargets) -> dict[str, dict[str, Any]]:
    """The `spec` of a ScrapeConfig for each job, by the object's name."""
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
        for job, port in JOBS.items()
    }
