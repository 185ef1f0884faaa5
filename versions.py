"""Every pinned version of what is installed on nodes or in the cluster."""

# renovate: datasource=github-releases depName=kubernetes/kubernetes
KUBERNETES_VERSION = "v1.36.3"

# The minors this program is tested with; kubeadm moves one at a time between them.
KUBERNETES_MINORS = ("1.35", "1.36", "1.37")
