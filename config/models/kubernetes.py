"""Settings of kubeadm, the kubelets, containerd, etcd and the API server."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from config import ports
from config.base import Settings
from config.values.kubernetes import (
    Arguments,
    AuditPolicy,
    CertificateValidity,
    ComponentConfig,
    PreflightCheck,
    Timeout,
)
from config.values.machine import DropInName, Toml
from config.values.network import HttpsUrl
from config.values.text import Line, Name, Pem

# The argument of the API server with the range of NodePorts.
NODE_PORT_RANGE = "service-node-port-range"
# GiB that etcd needs beside its database: its log, and what it keeps of that.
ETCD_LOG_GIB = 1


class Kubelet(Settings):
    """Settings of the kubelets."""

    extra_config: ComponentConfig = Field(default_factory=dict)
    """Fields of KubeletConfiguration (v1beta1), merged over those that this program sets. For the
    system, `kubeReserved` and `systemReserved` each keep `{cpu: 100m, memory: 256Mi, pid: "1000"}`
    of a node; `evictionHard` is the kubelet's default."""


class KubeProxy(Settings):
    """Settings of kube-proxy."""

    extra_config: ComponentConfig = Field(default_factory=dict)
    """Fields of KubeProxyConfiguration (v1alpha1), merged over those that this program sets."""


class ApiServer(Settings):
    """Settings of the API servers."""

    extra_args: Arguments = Field(default_factory=dict)
    """Arguments of kube-apiserver by name, without `--`, in addition to those of kubeadm and this
    program. An API server that does not start with them gets its previous ones back."""

    @property
    def node_ports(self) -> tuple[int, int]:
        """The first and the last NodePort."""
        return ports.node_ports(self.extra_args.get(NODE_PORT_RANGE, ""))


class ControllerManager(Settings):
    """Settings of the controller managers."""

    extra_args: Arguments = Field(default_factory=dict)
    """Arguments of kube-controller-manager, as for `apiServer`."""


class Scheduler(Settings):
    """Settings of the schedulers."""

    extra_args: Arguments = Field(default_factory=dict)
    """Arguments of kube-scheduler, as for `apiServer`."""


class Kubeadm(Settings):
    """Settings of kubeadm."""

    ignore_preflight_errors: tuple[PreflightCheck, ...] = ()
    """Preflight checks whose errors count as warnings, such as `NumCPU`."""
    certificate_validity_period: CertificateValidity = "8760h"
    """Lifetime of the certificates that kubeadm issues on control planes, in whole hours or
    minutes: `15m` to `8760h`, a year. They are renewed when a third of it is left."""


class Timeouts(Settings):
    """Times after which an update gives up on a node, in whole hours or minutes: `1m` to `24h`."""

    drain: Timeout = "10m"
    """Time in which the pods of a node must have left it. Pods with a longer
    `terminationGracePeriodSeconds`, or that a PodDisruptionBudget keeps, need more. It applies from
    the update after the one that sets it."""
    ready: Timeout = "10m"
    """Time in which a node that has joined must be Ready. The waits for its API server and for its
    kubelet's certificate, which follow, may each last as long."""


class Containerd(Settings):
    """Settings of containerd."""

    drop_ins: Mapping[DropInName, Toml] = Field(default_factory=dict)
    """Files for `/etc/containerd/conf.d`: the content, in TOML, by file name (`*.toml`)."""


class Etcd(Settings):
    """Settings of etcd; the defaults suit the disks and networks of a cloud."""

    heartbeat_interval: Annotated[int, Field(ge=10, le=10_000)] = 500
    """Milliseconds between two heartbeats of the leader (etcd's own default is 100)."""
    election_timeout: Annotated[int, Field(ge=50, le=50_000)] = 5000
    """Milliseconds without a heartbeat before an election; at least 5 times `heartbeatInterval`."""
    quota_backend_bytes: Annotated[int, Field(ge=64 * 2**20, le=8 * 2**30)] = 4 * 2**30
    """Size in bytes at which etcd refuses writes (etcd recommends at most 8 GiB). A lower value
    must leave the database a tenth of room."""


class AuditLog(Settings):
    """The audit log of the API server, on the disks of the control planes."""

    enabled: bool = True
    """Write the audit log."""
    max_age: Annotated[int, Field(ge=1)] = 30
    """Days after which an old file is deleted."""
    max_backup: Annotated[int, Field(ge=1)] = 10
    """Number of old files to keep."""
    max_size: Annotated[int, Field(ge=1)] = 100
    """Size in MiB at which a new file is started."""
    policy: AuditPolicy | None = None
    """A Policy of audit.k8s.io/v1, at least its `rules`; the default logs metadata only, and never
    Secrets."""


class Oidc(Settings):
    """Login to the API with OpenID Connect."""

    issuer_url: HttpsUrl
    """URL of the issuer; it must start with `https://`."""
    client_id: Name
    """Client ID that tokens must be issued for."""
    username_claim: Name = "sub"
    """Claim that contains the user name."""
    username_prefix: Line = "oidc:"
    """Prefix of user names, so that no one can become `system:...`."""
    groups_claim: Name = "groups"
    """Claim that contains the groups of the user."""
    groups_prefix: Line = "oidc:"
    """Prefix of group names."""
    ca_certificate: Pem | None = None
    """CA certificate of the issuer, in PEM; the default is the system's list of CAs."""
