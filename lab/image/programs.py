"""Build the programs of a node from the Go modules in go/, at the versions of versions.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import gobuild
from lab.image import versions

MODULES = Path(__file__).resolve().parent / "go"
KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubeadm",
    "kubectl",
    "kubelet",
)


def _set(package: str, values: Mapping[str, str]) -> list[str]:
    return [f"-X '{package}.{name}={value}'" for name, value in values.items()]


def _named(prefix: str, programs: tuple[str, ...]) -> dict[str, str]:
    return {program: f"{prefix}/{program}" for program in programs}


def kubernetes(version: str) -> Path:
    """Build the programs of one Kubernetes release; --version prints what the released ones do."""
    major, minor, _ = version.removeprefix("v").split(".")
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        # The module does not name its commit: an empty text is better than a template.
        "gitCommit": "",
        "gitTreeState": "clean",
    }
    return gobuild.build(
        f"kubernetes-{version}",
        MODULES / f"kubernetes-{major}.{minor}",
        _named("k8s.io/kubernetes/cmd", KUBERNETES_PROGRAMS),
        ldflags=[
            *_set("k8s.io/component-base/version", values),
            *_set("k8s.io/client-go/pkg/version", values),
        ],
    )


def containerd() -> Path:
    """Build containerd with the CRI plugin, its shim for runc and its debug client ctr."""
    module = "github.com/containerd/containerd/v2"
    return gobuild.build(
        f"containerd-{versions.CONTAINERD}",
        MODULES / "containerd",
        _named(f"{module}/cmd", ("containerd", "containerd-shim-runc-v2", "ctr")),
        ldflags=_set(f"{module}/version", {"Version": versions.CONTAINERD}),
        tags=("no_btrfs", "no_devmapper", "no_zfs", "no_tracing", "urfave_cli_no_docs"),
    )


def crictl() -> Path:
    """Build crictl, which shows a node's containers."""
    return gobuild.build(
        f"crictl-{versions.CRICTL}",
        MODULES / "crictl",
        _named("sigs.k8s.io/cri-tools/cmd", ("crictl",)),
        ldflags=_set("sigs.k8s.io/cri-tools/pkg/version", {"Version": versions.CRICTL}),
    )


def etcd() -> Path:
    """Build etcd, etcdctl and etcdutl (snapshot restore)."""
    return gobuild.build(
        f"etcd-{versions.ETCD}",
        MODULES / "etcd",
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            "etcdctl": "go.etcd.io/etcd/etcdctl/v3",
            "etcdutl": "go.etcd.io/etcd/etcdutl/v3",
        },
    )


def coredns() -> Path:
    """Build CoreDNS with the plugins of a cluster's Corefile."""
    return gobuild.build(
        f"coredns-{versions.COREDNS}", MODULES / "coredns", {"coredns": "lab.invalid/coredns"}
    )


def cloud_provider_openstack() -> Path:
    """Build the cloud controller manager and the Cinder CSI plugin."""
    version = versions.CLOUD_PROVIDER_OPENSTACK
    return gobuild.build(
        f"cloud-provider-openstack-{version}",
        MODULES / "cloud-provider-openstack",
        _named(
            "k8s.io/cloud-provider-openstack/cmd",
            ("openstack-cloud-controller-manager", "cinder-csi-plugin"),
        ),
        ldflags=[
            *_set("k8s.io/component-base/version", {"gitVersion": version}),
            *_set("k8s.io/cloud-provider-openstack/pkg/version", {"Version": version}),
        ],
    )


def cilium() -> Path:
    """Build Cilium's agent, generic operator, CNI plugin, client and the helpers it starts."""
    module = "github.com/cilium/cilium"
    # "version, commit, time of the commit": the module has only the first.
    version = f"{versions.CILIUM.removeprefix('v')} module 1970-01-01T00:00:00+00:00"
    return gobuild.build(
        f"cilium-{versions.CILIUM}",
        MODULES / "cilium",
        {
            "cilium-agent": f"{module}/daemon",
            "cilium-operator-generic": f"{module}/operator",
            "cilium-cni": f"{module}/plugins/cilium-cni",
            "cilium-dbg": f"{module}/cilium-dbg",
            "cilium-health-responder": f"{module}/cilium-health/responder",
            "cilium-mount": f"{module}/tools/mount",
            "cilium-sysctlfix": f"{module}/tools/sysctlfix",
        },
        ldflags=_set(f"{module}/pkg/version", {"ciliumVersion": version}),
        # Address management by Kubernetes makes the operator the "generic" one.
        tags=("ipam_provider_operator", "osusergo"),
    )


def addons() -> Path:
    """Build the sidecars of CSI drivers, the snapshot controller and metrics-server."""
    csi = "github.com/kubernetes-csi"
    return gobuild.build(
        "addons",
        MODULES / "addons",
        {
            "csi-attacher": "lab.invalid/addons/attacher",
            "csi-node-driver-registrar": "lab.invalid/addons/registrar",
            "livenessprobe": "lab.invalid/addons/livenessprobe",
            "csi-provisioner": f"{csi}/external-provisioner/v5/cmd/csi-provisioner",
            "csi-resizer": f"{csi}/external-resizer/cmd/csi-resizer",
            "csi-snapshotter": f"{csi}/external-snapshotter/v8/cmd/csi-snapshotter",
            "snapshot-controller": f"{csi}/external-snapshotter/v8/cmd/snapshot-controller",
            "metrics-server": "lab.invalid/addons/metrics-server",
        },
        ldflags=_set("main", {"version": "lab"}),
    )


def monitoring() -> dict[str, Path]:
    """Build Prometheus, its operator and their companions; returns module name -> folder."""
    prometheus = "github.com/prometheus"
    operator = f"{prometheus}-operator/prometheus-operator"
    version = f"{prometheus}/common/version"
    return {
        "prometheus": gobuild.build(
            f"prometheus-{versions.PROMETHEUS[1]}",
            MODULES / "prometheus",
            {"prometheus": f"{prometheus}/prometheus/cmd/prometheus"},
            ldflags=_set(version, {"Version": versions.PROMETHEUS[0].removeprefix("v")}),
            # Every other kind of service discovery adds the client of some cloud.
            tags=("remove_all_sd", "enable_kubernetes_sd", "enable_static_sd", "stringlabels"),
        ),
        "alertmanager": gobuild.build(
            f"alertmanager-{versions.ALERTMANAGER}",
            MODULES / "alertmanager",
            {"alertmanager": f"{prometheus}/alertmanager/cmd/alertmanager"},
            ldflags=_set(version, {"Version": versions.ALERTMANAGER.removeprefix("v")}),
            completed=(f"{prometheus}/alertmanager",),
        ),
        "node-exporter": gobuild.build(
            f"node-exporter-{versions.NODE_EXPORTER[1]}",
            MODULES / "node-exporter",
            {"node_exporter": f"{prometheus}/node_exporter"},
        ),
        "prometheus-operator": gobuild.build(
            f"prometheus-operator-{versions.PROMETHEUS_OPERATOR}",
            MODULES / "prometheus-operator",
            {
                "operator": f"{operator}/cmd/operator",
                "prometheus-config-reloader": f"{operator}/cmd/prometheus-config-reloader",
            },
            ldflags=_set(version, {"Version": versions.PROMETHEUS_OPERATOR.removeprefix("v")}),
        ),
        "kube-state-metrics": gobuild.build(
            f"kube-state-metrics-{versions.KUBE_STATE_METRICS}",
            MODULES / "kube-state-metrics",
            {"kube-state-metrics": "k8s.io/kube-state-metrics/v2"},
        ),
    }


def traefik() -> Path:
    """Build Traefik, with Ingress, Gateway API and its own resources."""
    module = "github.com/traefik/traefik/v3"
    return gobuild.build(
        f"traefik-{versions.TRAEFIK}",
        MODULES / "traefik",
        {"traefik": f"{module}/cmd/traefik"},
        ldflags=_set(f"{module}/pkg/version", {"Version": versions.TRAEFIK.removeprefix("v")}),
        completed=(
            "github.com/abbot/go-http-auth",
            "github.com/go-acme/lego/v5",
            "github.com/gorilla/mux",
        ),
    )


def pause(tag: str) -> Path:
    """Build the program that holds a pod's namespaces; -v prints the tag of its image."""
    return gobuild.build(
        f"pause-{tag}",
        MODULES / "pause",
        {"pause": "lab.invalid/pause"},
        ldflags=_set("main", {"Version": tag}),
    )


def source(name: str, path: str) -> Path:
    """Source tree of the module `path`, a dependency of go/`name`."""
    return gobuild.module_folder(MODULES / name, path)


def build_all(releases: Sequence[str]) -> None:
    """Build the programs of a plain cluster that are missing."""
    for release in releases:
        kubernetes(release)
    for build in (containerd, etcd, coredns, cloud_provider_openstack, cilium, addons, crictl):
        build()
