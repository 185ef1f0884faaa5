"""Fields of KubeletConfiguration: the time for pods when their machine shuts down."""

from collections.abc import Mapping

PERIOD, CRITICAL = "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"
BY_PRIORITY = "shutdownGracePeriodByPodPriority"
_DEFAULTS: Mapping[str, str] = {PERIOD: "30s", CRITICAL: "10s"}


def defaults(extra_config: Mapping[str, object]) -> Mapping[str, str]:
    """The program's own, unless `kubelet.extraConfig` says it in the other way."""
    return {} if extra_config.get(BY_PRIORITY) else _DEFAULTS
