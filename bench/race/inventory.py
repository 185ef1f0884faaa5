"""kubespray's inventory for servers of the lab: every setting is one that its users have, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from bench.lower_bound import POD_CIDR
from bench.servers import USER
from lab.image import node, versions

PORT = 6443
# Where the node image has its programs, and where archives of them are put together.
ARTIFACTS = f"/{node.ARTIFACTS}"
ARCHIVES = "/opt/race"
# A server of the lab is a system container, and has no way to the internet; its images are loaded.
LAB: dict[str, Any] = {
    "containerd_base_runtime_spec_rlimit_nofile": 16384,
    "containerd_extra_runtime_args": {"restrict_oom_score_adj": True},
    "containerd_use_systemd_cgroup": False,
    "download_container": False,
    "kube_proxy_conntrack_max_per_core": 0,
    # For nftables it loads a kernel module, which a container cannot.
    "kube_proxy_mode": "iptables",
    # The file at its default is that of a resolver on the machine's loopback.
    "kube_resolv_conf": "/run/systemd/resolve/resolv.conf",
    # It refuses the machine's cgroups, whatever the kubelet is told.
    "kubeadm_ignore_preflight_errors": ["SystemVerification"],
    "kubelet_fail_cgroup_v1": False,
    "kubelet_fail_swap_on": False,
    "kubelet_swap_behavior": "NoSwap",
    "resolvconf_mode": "none",
    "skip_kubeadm_images": True,
}
# The same parts as the other contestants: the same pod network, CoreDNS, and a load balancer in
# front of the API servers.
PARTS: dict[str, Any] = {
    "enable_dns_autoscaler": False,
    "enable_nodelocaldns": False,
    "kube_network_plugin": "custom_cni",
    # As its documentation asks for with Cilium, which writes into folders of this owner.
    "kube_owner": "root",
    "kube_pods_subnet": POD_CIDR,
    "loadbalancer_apiserver_localhost": False,
}
# The image of CoreDNS that kubeadm of each minor version asks for.
COREDNS = {"v1.35": "1.13.1", "v1.36": "1.14.2"}


def downloads(release: str, sums: Mapping[str, str]) -> dict[str, Any]:
    """The source of each program: the machine's own disk. `sums`: file -> SHA-256."""
    found: dict[str, Any] = {
        "kube_version": release.removeprefix("v"),
        "containerd_version": versions.CONTAINERD.removeprefix("v"),
        "coredns_version": COREDNS[release.rpartition(".")[0]],
        "crictl_version": versions.CRICTL.removeprefix("v"),
        "etcd_version": versions.ETCD.removeprefix("v"),
    }
    for program in ("kubeadm", "kubelet", "kubectl"):
        file = f"{ARTIFACTS}/{release}/{program}"
        found |= _download(program, f"{program}_binary_checksum", file, sums)
    for program, checksum in {
        "cni": "cni_binary_checksum",
        "containerd": "containerd_checksum",
        "crictl": "crictl_binary_checksum",
        "etcd": "etcd_binary_checksum",
        "nerdctl": "nerdctl_archive_checksum",
    }.items():
        found |= _download(program, checksum, f"{ARCHIVES}/{program}.tar.gz", sums)
    return found | _download("runc", "runc_binary_checksum", f"{ARCHIVES}/runc", sums)


def _download(program: str, checksum: str, file: str, sums: Mapping[str, str]) -> dict[str, str]:
    return {f"{program}_download_url": f"file://{file}", checksum: f"sha256:{sums[file]}"}


def inventory(
    control_planes: Mapping[str, str],
    workers: Mapping[str, str],
    lost: Collection[str],
    variables: Mapping[str, Any],
) -> dict[str, Any]:
    """The inventory of these machines, name -> address; the lost control planes are among them."""
    hosts = {
        name: {"ansible_host": address, "ip": address, "access_ip": address}
        for name, address in {**control_planes, **workers}.items()
    }
    for name in control_planes:
        hosts[name]["etcd_member_name"] = name
    alive = [name for name in control_planes if name not in lost]
    groups = {
        "kube_control_plane": alive,
        "etcd": alive,
        "kube_node": workers,
        "broken_kube_control_plane": lost,
        "broken_etcd": lost,
    }
    return {
        "all": {
            "hosts": hosts,
            "vars": {"ansible_user": USER, "ansible_become": True, **variables},
            "children": {
                group: {"hosts": dict.fromkeys(members)} for group, members in groups.items()
            },
        }
    }
