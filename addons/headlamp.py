"""Headlamp, the dashboard: reached by `kubectl port-forward`, or by an ingress through `values`."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.install import Installer
from addons.settings import Headlamp

CHART = Chart(
    name="headlamp",
    version=versions.HEADLAMP_CHART,
    repository="https://kubernetes-sigs.github.io/headlamp",
)
NAMESPACE = "headlamp"


def values() -> dict[str, Any]:
    """Users act with the rights of the token they log in with."""
    return {
        # The chart would make it an administrator.
        "clusterRoleBinding": {"create": False},
    }


def install(
    installer: Installer, settings: Headlamp, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install it."""
    return installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(),
        overrides=settings.values,
        after=[*after, installer.namespace(NAMESPACE)],
    )
