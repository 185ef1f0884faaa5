"""Every version that the lab's node image is made of, in one list."""

from __future__ import annotations

# The release that nodes are installed with, and the ones an upgrade can go from or to.
KUBERNETES = "v1.36.3"
KUBERNETES_RELEASES = ("v1.36.3", "v1.35.4")
CONTAINERD = "v2.2.1"
ETCD = "v3.6.8"
COREDNS = "v1.14.1"
CLOUD_PROVIDER_OPENSTACK = "v1.36.0"
CILIUM = "v1.19.3"
PAUSE = "3.10.2"
