"""The settings and files that machines get, besides scripts and kubeadm's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

import versions
from config import ports
from config.models.addons import Kured
from config.models.cluster import Cluster
from config.models.mirrors import HttpProxy

# Registries at another host than the images' names say; at docker.io itself is a web site.
_REGISTRIES = {"docker.io": "registry-1.docker.io"}


def machine_variables(cluster: Cluster) -> dict[str, str]:
    """The `node.env` keys that are the same on every machine."""
    addresses = [str(address) for address in cluster.addresses.control_planes]
    hosts = [
        f"{address}={cluster.machine_name('control-plane', index)}"
        for index, address in enumerate(addresses)
    ]
    mirrors = {
        "KUBERNETES_PACKAGES": cluster.package_mirrors.kubernetes,
        "CONTAINERD_PACKAGES": cluster.package_mirrors.containerd,
    }
    registry = cluster.addons.image_registry
    return {
        "PROGRAM_VERSION": versions.PROGRAM,
        "CLUSTER_NAME": cluster.cluster_name,
        "KUBERNETES_VERSION": cluster.kubernetes_version,
        "CONTROL_PLANE_ADDRESSES": " ".join(addresses),
        "API_NAME": cluster.api_name,
        "NODE_HOSTS": " ".join(hosts),
        "IGNORE_PREFLIGHT_ERRORS": ",".join(cluster.kubeadm.ignore_preflight_errors),
        **{key: url.rstrip("/") for key, url in mirrors.items() if url is not None},
        **({} if registry is None else {"IMAGE_REGISTRY": registry}),
        **({"TIME_SERVERS": " ".join(cluster.time_servers)} if cluster.time_servers else {}),
        "SECURITY_UPDATES": str(cluster.security_updates).lower(),
        **ports.node_env(),
    }


def reboot_variables(window: Kured) -> dict[str, str]:
    """The `node.env` keys of the window in which gateways may reboot; none if they must not."""
    if not window.enabled:
        return {}
    return {
        "REBOOT_DAYS": " ".join(window.days),
        "REBOOT_START": window.start_time,
        "REBOOT_END": window.end_time,
        "REBOOT_TIME_ZONE": window.time_zone,
    }


def node_files(cluster: Cluster, ca_certificate: pulumi.Input[str]) -> dict[str, pulumi.Input[str]]:
    """CA certificate, containerd's drop-ins and mirrors, the HTTP proxy."""
    files: dict[str, pulumi.Input[str]] = {"ca.crt": ca_certificate, **proxy_files(cluster)}
    for name, text in cluster.containerd.drop_ins.items():
        files[f"containerd/{name}"] = text
    for host, mirrors in cluster.registry_mirrors.items():
        files[f"containerd/certs.d/{host}/hosts.toml"] = _hosts_toml(host, mirrors)
    return files


def proxy_files(cluster: Cluster) -> dict[str, str]:
    """The HTTP proxy, for every machine; its URL may contain a password."""
    if cluster.http_proxy is None:
        return {}
    return {"proxy.env": _proxy_env(cluster, cluster.http_proxy)}


def _hosts_toml(host: str, mirrors: Sequence[str]) -> str:
    registry = _REGISTRIES.get(host, host)
    server = "" if host == "_default" else f'server = "https://{registry}"\n'
    return server + "".join(
        f'\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n' for url in mirrors
    )


def _proxy_env(cluster: Cluster, proxy: HttpProxy) -> str:
    direct = [
        "localhost",
        "127.0.0.1",
        ".svc",
        ".cluster.local",
        ".internal",
        str(cluster.host_cidr),
        str(cluster.pod_cidr),
        str(cluster.service_cidr),
        "169.254.169.254",
        *proxy.no_proxy,
    ]
    values: Mapping[str, str | None] = {
        "HTTP_PROXY": proxy.http,
        "HTTPS_PROXY": proxy.https or proxy.http,
        "NO_PROXY": ",".join(direct),
    }
    return "".join(f"{key}={value}\n" for key, value in values.items() if value)
