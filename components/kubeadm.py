"""kubeadm's configuration (v1beta4), built as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.kubelet import kubelet_configuration
from config import ports
from config.kubernetes_yaml import dump
from config.merge import merge
from config.models.cluster import Cluster
from config.models.machines import Taint

_API_VERSION = "kubeadm.k8s.io/v1beta4"
DISCOVERY_FILE = "/run/openstack-kubernetes/discovery.conf"
_ALL_INTERFACES = "0.0.0.0"  # noqa: S104
LOOPBACK = "127.0.0.1"
_ENCRYPTION_FOLDER = "/etc/kubernetes/encryption"

Document = dict[str, Any]

_AUDIT_LOG: Document = {
    "name": "audit-log",
    "hostPath": "/var/log/kubernetes",
    "mountPath": "/var/log/kubernetes",
    "pathType": "DirectoryOrCreate",
}
# A file that is replaced stays the old one in a container that has mounted it.
_ENCRYPTION: Document = {
    "name": "encryption",
    "hostPath": _ENCRYPTION_FOLDER,
    "mountPath": _ENCRYPTION_FOLDER,
    "readOnly": True,
    "pathType": "Directory",
}


def arguments(values: Mapping[str, object]) -> list[Document]:
    """v1beta4's list form of command-line arguments."""
    return [{"name": name, "value": str(value)} for name, value in values.items()]


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The registration of a machine as a node."""

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


def cluster_configuration(cluster: Cluster, certificate_names: Sequence[str]) -> Document:
    """The ClusterConfiguration."""
    controller_manager = _controller_manager_arguments(cluster)
    scheduler = _component_arguments(cluster)
    document: Document = {
        "apiVersion": _API_VERSION,
        "kind": "ClusterConfiguration",
        "clusterName": cluster.cluster_name,
        "kubernetesVersion": cluster.kubernetes_version,
        "controlPlaneEndpoint": f"{cluster.api_name}:{ports.LOCAL_API}",
        "encryptionAlgorithm": "ECDSA-P256",
        "certificateValidityPeriod": cluster.kubeadm.certificate_validity_period,
        "networking": {
            "podSubnet": str(cluster.pod_cidr),
            "serviceSubnet": str(cluster.service_cidr),
            "dnsDomain": "cluster.local",
        },
        "apiServer": _api_server(cluster, certificate_names),
        "controllerManager": {
            "extraArgs": arguments({**controller_manager, **cluster.controller_manager.extra_args})
        },
        "scheduler": {"extraArgs": arguments({**scheduler, **cluster.scheduler.extra_args})},
        "etcd": {"local": {"extraArgs": arguments(_etcd_arguments(cluster))}},
    }
    if cluster.addons.image_registry is not None:
        document["imageRepository"] = cluster.addons.image_registry
    return document


def _api_server(cluster: Cluster, certificate_names: Sequence[str]) -> Document:
    extra: dict[str, object] = {
        # Long enough for the gateways to see that it is going before it stops listening; a node
        # whose connection is refused tries the next one.
        "shutdown-delay-duration": "5s",
        # The kubelets' serving certificates, which the node scripts approve.
        "kubelet-certificate-authority": "/etc/kubernetes/pki/ca.crt",
        "profiling": "false",
        # A pod's token is valid for an hour, not for a year: docs/cis.md.
        "service-account-extend-token-expiration": "false",
    }
    volumes: list[Document] = []
    if cluster.audit_log.enabled:
        extra |= _audit_arguments(cluster)
        volumes += [_host_file("audit-policy"), _AUDIT_LOG]
    # Also if nothing is encrypted: Secrets stay readable when it is switched on or off later.
    extra["encryption-provider-config"] = f"{_ENCRYPTION_FOLDER}/configuration.yaml"
    extra["encryption-provider-config-automatic-reload"] = "true"
    extra["authentication-config"] = _kubernetes_file("authentication")
    extra["admission-control-config-file"] = _kubernetes_file("admission")
    volumes += [_ENCRYPTION, _host_file("authentication"), _host_file("admission")]
    return {
        "certSANs": list(certificate_names),
        "extraArgs": arguments({**extra, **cluster.api_server.extra_args}),
        "extraVolumes": volumes,
    }


def _audit_arguments(cluster: Cluster) -> dict[str, object]:
    return {
        "audit-policy-file": _kubernetes_file("audit-policy"),
        "audit-log-path": "/var/log/kubernetes/audit.log",
        "audit-log-maxage": cluster.audit_log.max_age,
        "audit-log-maxbackup": cluster.audit_log.max_backup,
        "audit-log-maxsize": cluster.audit_log.max_size,
    }


def _kubernetes_file(name: str) -> str:
    return f"/etc/kubernetes/{name}.yaml"


def _host_file(name: str) -> Document:
    path = _kubernetes_file(name)
    return {"name": name, "hostPath": path, "mountPath": path, "readOnly": True, "pathType": "File"}


def _component_arguments(cluster: Cluster) -> dict[str, object]:
    return {"bind-address": metrics_address(cluster), "profiling": "false"}


def _controller_manager_arguments(cluster: Cluster) -> dict[str, object]:
    extra = _component_arguments(cluster)
    if cluster.rotation.certificate_authorities > 1:
        # It takes one certificate only, and ca.crt has two for a while.
        extra["cluster-signing-cert-file"] = "/etc/kubernetes/pki/issuing-ca.crt"
    return extra


def metrics_address(cluster: Cluster) -> str:
    """The address at which a node serves metrics: Prometheus asks from other machines."""
    return _ALL_INTERFACES if cluster.addons.monitoring.enabled else LOOPBACK


def init_file(
    cluster: Cluster, certificate_names: Sequence[str], registration: Registration
) -> str:
    """`kubeadm-init.yaml` of a control plane, also for the settings of one that has joined."""
    init = {
        "apiVersion": _API_VERSION,
        "kind": "InitConfiguration",
        "nodeRegistration": registration.document(),
        "localAPIEndpoint": {"advertiseAddress": registration.address, "bindPort": ports.API},
        # kubeadm always makes one token; no one uses it, so it ends soon.
        "bootstrapTokens": [{"ttl": "1m0s"}],
    }
    kube_proxy = merge(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "metricsBindAddress": f"{metrics_address(cluster)}:{ports.KUBE_PROXY_METRICS}",
        },
        cluster.kube_proxy.extra_config,
    )
    return dump(
        init,
        cluster_configuration(cluster, certificate_names),
        kubelet_configuration(cluster.kubelet.extra_config),
        kube_proxy,
    )


def join_file(registration: Registration, *, control_plane: bool) -> str:
    """`kubeadm-join.yaml`. The credentials are in the discovery file, not here."""
    document: Document = {
        "apiVersion": _API_VERSION,
        "kind": "JoinConfiguration",
        "nodeRegistration": registration.document(),
        "discovery": {"file": {"kubeConfigPath": DISCOVERY_FILE}},
    }
    if control_plane:
        document["controlPlane"] = {
            "localAPIEndpoint": {"advertiseAddress": registration.address, "bindPort": ports.API}
        }
    return dump(document)


def _etcd_arguments(cluster: Cluster) -> dict[str, object]:
    etcd = cluster.etcd
    return {
        "heartbeat-interval": etcd.heartbeat_interval,
        "election-timeout": etcd.election_timeout,
        "quota-backend-bytes": etcd.quota_backend_bytes,
        "listen-metrics-urls": f"http://{metrics_address(cluster)}:{ports.ETCD_METRICS}",
    }
