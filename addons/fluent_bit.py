"""Fluent Bit, which reads the logs of pods and the machine's journal on every node."""

from collections.abc import Sequence
from typing import Any

import versions
from addons.chart import Chart
from addons.scheduling import requests

CHART = Chart(
    name="fluent-bit",
    version=versions.FLUENT_BIT_CHART,
    repository="https://fluent.github.io/helm-charts",
)
# Its position in each log, and what it could not send yet, on the machine's own disk.
_STATE = "/var/lib/fluent-bit"
_STATE_LIMIT = "500M"
# The journal of a systemd that keeps it in memory.
_VOLATILE_JOURNAL = "/run/log/journal"

_SERVICE = f"""
[SERVICE]
    Flush 1
    Log_Level warn
    HTTP_Server On
    HTTP_Listen 0.0.0.0
    HTTP_Port 2020
    Health_Check On
    storage.path {_STATE}/buffer
    storage.backlog.mem_limit 16M
    storage.max_chunks_up 64
"""
# Older messages are read as well: a node's first minutes are the interesting ones.
_INPUTS = f"""
[INPUT]
    Name tail
    Tag pod.*
    Path /var/log/containers/*.log
    Path_Key file
    multiline.parser cri
    Read_from_Head On
    Skip_Long_Lines On
    Refresh_Interval 5
    DB {_STATE}/pods.db
    DB.locking On
    storage.type filesystem

[INPUT]
    Name systemd
    Tag node.journal
    DB {_STATE}/journal.db
    Lowercase On
    Strip_Underscores On
    storage.type filesystem
"""
# Messages read while the API is down lack its metadata, but `file` still names namespace and pod.
# Metadata of a pod may be larger than the default buffer.
_FILTERS = """
[FILTER]
    Name kubernetes
    Match pod.*
    Kube_Tag_Prefix pod.var.log.containers.
    Labels On
    Annotations Off
    Buffer_Size 0
    K8S-Logging.Exclude On

[FILTER]
    Name record_modifier
    Match node.*
    Allowlist_key message
    Allowlist_key priority
    Allowlist_key hostname
    Allowlist_key systemd_unit
    Allowlist_key syslog_identifier
    Allowlist_key pid
    Allowlist_key transport
"""


def values(*, host: str, port: int, monitored: bool) -> dict[str, Any]:
    """Return values that send all logs to VictoriaLogs, and keep them on disk while it is down.

    Args:
        host: name of the server's Service.
        port: of the server's HTTP API.
        monitored: whether Prometheus scrapes Fluent Bit.
    """
    outputs = "\n".join(
        (
            _output(
                "pod.*",
                host,
                port,
                message="log",
                stream=(
                    "kubernetes.namespace_name",
                    "kubernetes.pod_name",
                    "kubernetes.container_name",
                ),
            ),
            _output("node.*", host, port, message="message", stream=("hostname", "systemd_unit")),
        )
    )
    read_only = {"readOnly": True}
    return {
        "testFramework": {"enabled": False},
        "serviceMonitor": {"enabled": monitored},
        "priorityClassName": "system-node-critical",
        "resources": requests(cpu="10m", memory="32Mi"),
        # Runs on every node, including control planes.
        "tolerations": [{"operator": "Exists"}],
        # The files belong to root, which can read them without any capability.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "config": {
            "service": _SERVICE,
            "inputs": _INPUTS,
            "filters": _FILTERS,
            "outputs": outputs,
            "customParsers": "",
        },
        "daemonSetVolumes": [
            {"name": "varlog", "hostPath": {"path": "/var/log"}},
            {
                "name": "journal",
                "hostPath": {"path": _VOLATILE_JOURNAL, "type": "DirectoryOrCreate"},
            },
            {"name": "machine-id", "hostPath": {"path": "/etc/machine-id", "type": "File"}},
            {"name": "state", "hostPath": {"path": _STATE, "type": "DirectoryOrCreate"}},
        ],
        "daemonSetVolumeMounts": [
            {"name": "varlog", "mountPath": "/var/log", **read_only},
            {"name": "journal", "mountPath": _VOLATILE_JOURNAL, **read_only},
            {"name": "machine-id", "mountPath": "/etc/machine-id", **read_only},
            {"name": "state", "mountPath": _STATE},
        ],
    }


def _output(match: str, host: str, port: int, *, message: str, stream: Sequence[str]) -> str:
    fields = f"_time_field=date&_msg_field={message}&_stream_fields={','.join(stream)}"
    return f"""
[OUTPUT]
    Name http
    Match {match}
    Host {host}
    Port {port}
    URI /insert/jsonline?{fields}
    Format json_lines
    Json_date_format iso8601
    Compress gzip
    Retry_Limit no_limits
    storage.total_limit_size {_STATE_LIMIT}
"""
