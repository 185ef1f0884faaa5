"""Fields of KubeletConfiguration by the type of their values (k8s.io/kubelet v0.36.3, types.go).

Others may be added by a later version, and have any value here.
"""

NUMBERS = frozenset({
    "containerLogMaxFiles", "containerLogMaxWorkers", "eventBurst", "eventRecordQPS",
    "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
    "kubeAPIBurst", "kubeAPIQPS", "maxOpenFiles", "maxParallelImagePulls", "maxPods",
    "nodeLeaseDurationSeconds", "nodeStatusMaxImages", "oomScoreAdj", "podPidsLimit", "podsPerCore",
    "registryBurst", "registryPullQPS",
})  # fmt: skip
TIMES = frozenset({
    "containerLogMonitorInterval", "cpuCFSQuotaPeriod", "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod", "fileCheckFrequency", "httpCheckFrequency",
    "imageMaximumGCAge", "imageMinimumGCAge", "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency", "runtimeRequestTimeout", "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods", "streamingConnectionIdleTimeout", "syncFrequency",
    "volumeStatsAggPeriod",
})  # fmt: skip
SWITCHES = frozenset({
    "cpuCFSQuota", "enableContentionProfiling", "enableControllerAttachDetach",
    "enableDebugFlagsHandler", "enableDebuggingHandlers", "enableProfilingHandler",
    "enableSystemLogHandler", "enableSystemLogQuery", "failCgroupV1", "failSwapOn",
    "kernelMemcgNotification", "localStorageCapacityIsolation", "makeIPTablesUtilChains",
    "mergeDefaultEvictionSettings", "protectKernelDefaults", "seccompDefault",
    "serializeImagePulls", "singleProcessOOMKill",
})  # fmt: skip
