"""Kubernetes itself: what kubeadm, the kubelets, containerd, etcd and the API server are told."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from config.base import Name, Settings, Values
from config.values.machine import CheckName, ComponentConfig, DropInName, HttpsUrl, Pem, Toml


class Kubelet(Settings):
    """The kubelets."""

    extra_config: ComponentConfig = Field(default_factory=dict)
    """Fields of KubeletConfiguration (v1beta1), merged over those of this program."""


class KubeProxy(Settings):
    """kube-proxy."""

    extra_config: ComponentConfig = Field(default_factory=dict)
    """Fields of KubeProxyConfiguration (v1alpha1), merged over those of this program."""


class Kubeadm(Settings):
    """kubeadm."""

    ignore_preflight_errors: tuple[CheckName, ...] = ()
    """Names of preflight checks whose errors become warnings, such as `NumCPU`."""


class Containerd(Settings):
    """containerd."""

    drop_ins: Mapping[DropInName, Toml] = Field(default_factory=dict)
    """Files for `/etc/containerd/conf.d`: name (`*.toml`) to TOML text."""


class Etcd(Settings):
    """etcd, tuned for disks and networks of a cloud rather than for bare metal."""

    heartbeat_interval: Annotated[int, Field(ge=10, le=10_000)] = 500
    """Milliseconds between the leader's heartbeats (etcd's own default is 100)."""
    election_timeout: Annotated[int, Field(ge=50, le=50_000)] = 5000
    """Milliseconds without a heartbeat before an election; at least five heartbeats."""
    quota_backend_bytes: Annotated[int, Field(ge=64 * 2**20, le=8 * 2**30)] = 4 * 2**30
    """Bytes the database may hold before etcd refuses writes (etcd advises 8 GiB at most)."""


class AuditLog(Settings):
    """The API server's audit log, on the control planes' disks."""

    enabled: bool = True
    """Whether it is written."""
    max_age: Annotated[int, Field(ge=1)] = 30
    """Days after which a file is deleted."""
    max_backup: Annotated[int, Field(ge=1)] = 10
    """Number of old files kept."""
    max_size: Annotated[int, Field(ge=1)] = 100
    """Size in MiB at which a new file begins."""
    policy: Values | None = None
    """An audit.k8s.io/v1 Policy; the default logs metadata, and no secrets."""


class Oidc(Settings):
    """Logging in to the API by OpenID Connect."""

    issuer_url: HttpsUrl
    """URL of the issuer, https only."""
    client_id: Name
    """Client for which tokens must be issued."""
    username_claim: Name = "sub"
    """Claim that is the user's name."""
    username_prefix: str = "oidc:"
    """Put before user names, so that nobody becomes `system:...`."""
    groups_claim: Name = "groups"
    """Claim that lists the user's groups."""
    groups_prefix: str = "oidc:"
    """Put before group names."""
    ca_certificate: Pem | None = None
    """PEM certificate of the CA that signed the issuer's; the default is the system's list."""
