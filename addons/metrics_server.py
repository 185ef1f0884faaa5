"""CPU and memory of nodes and pods, for `kubectl top` and autoscaling."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.installer import Installer
from addons.scheduling import CONTROL_PLANE_TOLERATIONS
from config.models.addons import MetricsServer

# Where every pod finds the cluster's CA, which signs the kubelets' serving certificates.
CLUSTER_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

CHART = Chart(
    name="metrics-server",
    version=versions.METRICS_SERVER_CHART,
    repository="https://kubernetes-sigs.github.io/metrics-server",
)


def values() -> dict[str, Any]:
    """Return the values that a kubeadm cluster needs."""
    return {
        "args": [f"--kubelet-certificate-authority={CLUSTER_CA}"],
        "tolerations": CONTROL_PLANE_TOLERATIONS,
    }


def install(
    installer: Installer, settings: MetricsServer, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install metrics-server."""
    return installer.chart(
        CHART,
        namespace="kube-system",
        values=values(),
        overrides=settings.values,
        after=after,
    )
