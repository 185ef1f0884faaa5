"""Values for Kubernetes, kubeadm and Helm charts."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from config.values.text import matches

# The largest cluster that Kubernetes supports (kubernetes.io, "Considerations for large clusters").
_MAX_NODES = 5000


def _etcd_members(count: int) -> int:
    if count not in (1, 3, 5):
        raise ValueError(
            "must be 1, 3 or 5: an even number of etcd members survives no more losses "
            "than one fewer"
        )
    return count


def _without_type(fields: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    if named := {"apiVersion", "kind"} & fields.keys():
        raise ValueError(f"must not set {' and '.join(sorted(named))}; the program sets them")
    return fields


ControlPlaneCount = Annotated[int, AfterValidator(_etcd_members)]
WorkerCount = Annotated[int, Field(ge=0, le=_MAX_NODES)]
PreflightCheck = Annotated[
    str, matches(r"[-\w./]+", "must be the name of one check, such as NumCPU")
]
ComponentConfig = Annotated[Mapping[str, JsonValue], AfterValidator(_without_type)]
Values = Mapping[str, JsonValue]
VolumeSize = Annotated[str, matches(r"[1-9][0-9]*(Mi|Gi|Ti)", "must be a size such as 20Gi")]
