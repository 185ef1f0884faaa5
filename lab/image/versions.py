"""Versions of everything in the lab's node image."""

from __future__ import annotations

# The release that nodes are installed with, and all releases that an upgrade can go to or from.
KUBERNETES = "v1.36.3"
KUBERNETES_RELEASES = ("v1.36.3", "v1.35.4")
CONTAINERD = "v2.2.1"
CRICTL = "v1.36.0"
ETCD = "v3.6.8"
COREDNS = "v1.14.2"
CLOUD_PROVIDER_OPENSTACK = "v1.36.0"
CILIUM = "v1.19.3"
# The tag in the module's chart, and the module's version.
METRICS_SERVER = ("v0.7.1", "v0.7.2")
SNAPSHOT_CONTROLLER = ("v8.3.0", "v8.3.0")
# The tags in the Cinder CSI chart, and the versions inside: the first three programs are the lab's
# own (go/addons), because the released ones are not available as Go modules.
CSI_SIDECARS = {
    "csi-attacher": ("v4.10.0", "lab"),
    "csi-node-driver-registrar": ("v2.15.0", "lab"),
    "livenessprobe": ("v2.17.0", "lab"),
    "csi-provisioner": ("v5.3.0", "v5.3.0"),
    "csi-resizer": ("v1.14.0", "v1.14.0"),
    "csi-snapshotter": ("v8.4.0", "v8.3.0"),
}
# The object store, an add-on whose module the lab has anyway (lab/object_store).
VERSITYGW = "v1.8.0"
# Optional add-ons (`lab image --addons`), by the tags in their charts; the versions of Prometheus'
# module have another scheme.
PROMETHEUS = ("v3.14.0-distroless", "v0.314.0")
NODE_EXPORTER = ("v1.12.1-distroless", "v1.12.1")
PROMETHEUS_OPERATOR = "v0.93.1"
KUBE_STATE_METRICS = "v2.20.0"
ALERTMANAGER = "v0.34.0"
TRAEFIK = "v3.7.11"
# The image of CronJobs of our own; it contains Debian's Python.
PYTHON = "3.14.2-alpine"
