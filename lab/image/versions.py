"""Every version that the lab's node image is made of, in one list."""

from __future__ import annotations

# The release that nodes are installed with, and the others that an upgrade can go to or from.
KUBERNETES = "v1.36.3"
KUBERNETES_RELEASES = ("v1.36.3", "v1.35.4")
CONTAINERD = "v2.2.1"
CRICTL = "v1.36.0"
ETCD = "v3.6.8"
COREDNS = "v1.14.2"
CLOUD_PROVIDER_OPENSTACK = "v1.36.0"
CILIUM = "v1.19.3"
# What the Debian packages and the images around the programs are taken from.
DEBIAN = "trixie"
