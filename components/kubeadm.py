"""kubeadm's files (v1beta4) and what the API server reads, built as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from config.merge import merge
from config.models.kubernetes import AuditLog, Etcd, Oidc
from config.models.machines import Taint

API_VERSION = "kubeadm.k8s.io/v1beta4"
# Every node reaches the API on its own loopback, where HAProxy balances over the control planes.
API_PORT = 7443
DISCOVERY_FILE = "/run/openstack-kubernetes/discovery.conf"
ETCD_METRICS_PORT = 2381
ALL_INTERFACES = "0.0.0.0"  # noqa: S104

Document = dict[str, Any]


def dump(*documents: Mapping[str, Any]) -> str:
    """One YAML file of these documents."""
    return yaml.safe_dump_all(list(documents), sort_keys=False, width=10**6)


def arguments(values: Mapping[str, object]) -> list[Document]:
    """v1beta4's list form of command-line arguments."""
    return [{"name": name, "value": str(value)} for name, value in values.items()]


@dataclass(frozen=True, kw_only=True)
class Registration:
    """How one machine presents itself as a node."""

    name: str
    address: str
    # None: a machine that is not a server of this cloud.
    provider_id: str | None
    taints: Sequence[Taint]
    external_cloud_provider: bool
    ignore_preflight_errors: Sequence[str]

    def document(self) -> Document:
        """The `nodeRegistration` of an Init- or JoinConfiguration."""
        extra: dict[str, object] = {"node-ip": self.address, "hostname-override": self.name}
        if self.external_cloud_provider and self.provider_id is not None:
            extra["cloud-provider"] = "external"
            extra["provider-id"] = self.provider_id
        elif self.external_cloud_provider:
            # The cloud controller looks for servers by name where there is no id, and deletes the
            # Node of a machine that is down and no server; an id of another kind it leaves alone.
            extra["provider-id"] = f"existing://{self.name}"
        return {
            "name": self.name,
            "criSocket": "unix:///run/containerd/containerd.sock",
            "taints": [taint.model_dump() for taint in self.taints],
            "kubeletExtraArgs": arguments(extra),
            "ignorePreflightErrors": list(self.ignore_preflight_errors),
        }


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """What is the same on every node of the cluster."""

    name: str
    kubernetes_version: str
    api_name: str
    certificate_names: Sequence[str]
    pod_cidr: str
    service_cidr: str
    etcd: Etcd
    audit: AuditLog
    oidc: Oidc | None
    image_registry: str | None
    kubelet: Mapping[str, Any]
    kube_proxy: Mapping[str, Any]

    @property
    def endpoint(self) -> str:
        """Where every node finds the API: host:port."""
        return f"{self.api_name}:{API_PORT}"


def cluster_configuration(cluster: ClusterSpec) -> Document:
    """The ClusterConfiguration."""
    # Long enough for every HAProxy to see that it is going before it stops listening.
    api_server: dict[str, object] = {"shutdown-delay-duration": "5s"}
    volumes: list[Document] = []
    if cluster.audit.enabled:
        api_server |= {
            "audit-policy-file": "/etc/kubernetes/audit-policy.yaml",
            "audit-log-path": "/var/log/kubernetes/audit.log",
            "audit-log-maxage": cluster.audit.max_age,
            "audit-log-maxbackup": cluster.audit.max_backup,
            "audit-log-maxsize": cluster.audit.max_size,
        }
        volumes.append(_host_file("audit-policy", "/etc/kubernetes/audit-policy.yaml"))
        volumes.append(
            {
                "name": "audit-log",
                "hostPath": "/var/log/kubernetes",
                "mountPath": "/var/log/kubernetes",
                "pathType": "DirectoryOrCreate",
            }
        )
    # Also where nothing is encrypted: switched on or off later, what is there stays readable.
    api_server["encryption-provider-config"] = "/etc/kubernetes/encryption.yaml"
    volumes.append(_host_file("encryption", "/etc/kubernetes/encryption.yaml"))
    if cluster.oidc is not None:
        api_server |= _oidc_arguments(cluster.oidc)
        if cluster.oidc.ca_certificate is not None:
            api_server["oidc-ca-file"] = "/etc/kubernetes/oidc-ca.crt"
            volumes.append(_host_file("oidc-ca", "/etc/kubernetes/oidc-ca.crt"))
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "ClusterConfiguration",
        "clusterName": cluster.name,
        "kubernetesVersion": cluster.kubernetes_version,
        "controlPlaneEndpoint": cluster.endpoint,
        "encryptionAlgorithm": "ECDSA-P256",
        "networking": {
            "podSubnet": cluster.pod_cidr,
            "serviceSubnet": cluster.service_cidr,
            "dnsDomain": "cluster.local",
        },
        "apiServer": {
            "certSANs": list(cluster.certificate_names),
            "extraArgs": arguments(api_server),
            "extraVolumes": volumes,
        },
        # Their metrics are read from inside the cluster; the security groups keep others out.
        "controllerManager": {"extraArgs": arguments({"bind-address": ALL_INTERFACES})},
        "scheduler": {"extraArgs": arguments({"bind-address": ALL_INTERFACES})},
        "etcd": {"local": {"extraArgs": arguments(_etcd_arguments(cluster.etcd))}},
    }
    if cluster.image_registry is not None:
        document["imageRepository"] = cluster.image_registry
    return document


def kubelet_configuration(over: Mapping[str, Any]) -> Document:
    """The KubeletConfiguration of every node, with `over` laid on it."""
    return merge(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "systemd",
            "rotateCertificates": True,
            "shutdownGracePeriod": "30s",
            "shutdownGracePeriodCriticalPods": "10s",
        },
        over,
    )


def init_file(cluster: ClusterSpec, registration: Registration) -> str:
    """`kubeadm-init.yaml` of the control plane that may initialise the cluster."""
    init = {
        "apiVersion": API_VERSION,
        "kind": "InitConfiguration",
        "nodeRegistration": registration.document(),
        "localAPIEndpoint": {"advertiseAddress": registration.address, "bindPort": 6443},
        # kubeadm always makes one token; nobody uses it, so it is gone soon.
        "bootstrapTokens": [{"ttl": "1m0s"}],
    }
    kube_proxy = merge(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "metricsBindAddress": f"{ALL_INTERFACES}:10249",
        },
        cluster.kube_proxy,
    )
    return dump(
        init, cluster_configuration(cluster), kubelet_configuration(cluster.kubelet), kube_proxy
    )


def join_file(registration: Registration, *, control_plane: bool) -> str:
    """`kubeadm-join.yaml`. The credentials are in the discovery file, not here."""
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "JoinConfiguration",
        "nodeRegistration": registration.document(),
        "discovery": {"file": {"kubeConfigPath": DISCOVERY_FILE}},
    }
    if control_plane:
        document["controlPlane"] = {
            "localAPIEndpoint": {"advertiseAddress": registration.address, "bindPort": 6443}
        }
    return dump(document)


def audit_policy(custom: Mapping[str, Any] | None) -> str:
    """Who changed what, without the bodies: they may hold secrets. Reads of noise are left out."""
    if custom is not None:
        return dump(custom)
    return dump(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
                {
                    "level": "None",
                    "resources": [
                        {"group": "coordination.k8s.io", "resources": ["leases"]},
                        {"group": "", "resources": ["events"]},
                        {"group": "events.k8s.io", "resources": ["events"]},
                    ],
                },
                {
                    "level": "None",
                    "users": ["system:kube-proxy", "system:apiserver"],
                    "verbs": ["get", "list", "watch"],
                },
                {
                    "level": "None",
                    "userGroups": ["system:nodes"],
                    "verbs": ["get", "list", "watch"],
                },
                {"level": "Metadata"},
            ],
        }
    )


def encryption_configuration(key: str, *, encrypt: bool) -> str:
    """Secrets at rest under secretbox, or in the clear; both stay readable. `key`: base64."""
    secretbox: Document = {"secretbox": {"keys": [{"name": "key1", "secret": key}]}}
    identity: Document = {"identity": {}}
    return dump(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [
                {
                    "resources": ["secrets"],
                    # The first one writes, all of them read.
                    "providers": [secretbox, identity] if encrypt else [identity, secretbox],
                }
            ],
        }
    )


def taints_text(taints: Iterable[Taint]) -> str:
    """Taints as kubectl takes them, comma separated."""
    return ",".join(f"{t.key}={t.value}:{t.effect}" for t in taints)


def _host_file(name: str, path: str) -> Document:
    return {"name": name, "hostPath": path, "mountPath": path, "readOnly": True, "pathType": "File"}


def _etcd_arguments(etcd: Etcd) -> dict[str, object]:
    return {
        "heartbeat-interval": etcd.heartbeat_interval,
        "election-timeout": etcd.election_timeout,
        "quota-backend-bytes": etcd.quota_backend_bytes,
        "listen-metrics-urls": f"http://{ALL_INTERFACES}:{ETCD_METRICS_PORT}",
    }


def _oidc_arguments(oidc: Oidc) -> dict[str, object]:
    values = {
        "oidc-issuer-url": oidc.issuer_url,
        "oidc-client-id": oidc.client_id,
        "oidc-username-claim": oidc.username_claim,
        "oidc-username-prefix": oidc.username_prefix,
        "oidc-groups-claim": oidc.groups_claim,
        "oidc-groups-prefix": oidc.groups_prefix,
    }
    return {name: value for name, value in values.items() if value}
