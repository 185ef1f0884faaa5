"""metrics-server: CPU and memory of nodes and pods, for `kubectl top` and autoscaling."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.install import ON_CONTROL_PLANES_TOO, Installer
from config.models.addons import MetricsServer

CHART = Chart(
    name="metrics-server",
    version=versions.METRICS_SERVER_CHART,
    repository="https://kubernetes-sigs.github.io/metrics-server",
)


def values() -> dict[str, Any]:
    """What a cluster of kubeadm needs."""
    return {
        # kubeadm's kubelets sign their own serving certificates.
        "args": ["--kubelet-insecure-tls"],
        "tolerations": ON_CONTROL_PLANES_TOO,
    }


def install(
    installer: Installer, settings: MetricsServer, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install it."""
    return installer.chart(
        CHART,
        namespace="kube-system",
        values=values(),
        overrides=settings.values,
        after=after,
    )
