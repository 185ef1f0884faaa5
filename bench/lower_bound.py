"""Measure the least time that a cluster of this size can take: bare kubeadm on the SDK's servers.

Everything that can runs in parallel: network, servers, boots; `kubeadm init`; then the other
control planes join one after the other while all workers join at once. There is no PKI of its own,
no host key check, no HAProxy and no cloud controller, and no step can be repeated.
Run it inside the lab: `python -m lab run -- python -m bench.lower_bound`. Prints the seconds since
the start as JSON; with `--cni` a file of manifests is applied and one more worker added, without it
nodes only register.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from bench.cluster import until_ready
from bench.figures import end_cleanly, seconds
from bench.servers import Servers
from lab import cluster_size, settings
from lab.image import name as image_name
from lab.image import versions

NAME = "bench-bound"
POD_CIDR = "10.244.0.0/16"
FLAVOR = "lab.2c3g"
ONE_MORE = "one more worker, until it is Ready"
READY_SECONDS = 300.0
FILE = "/run/kubeadm.yaml"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


class Bound:
    """One run on servers that are being made."""

    def __init__(
        self, servers: Servers, release: str, control_planes: Sequence[str], workers: Sequence[str]
    ) -> None:
        self._servers, self._release = servers, release
        self._control_planes, self._workers = control_planes, workers
        self._token = f"{secrets.token_hex(3)}.{secrets.token_hex(8)}"
        self._certificate_key = secrets.token_hex(32)

    def configure(self, name: str) -> None:
        """Set what kubeadm expects on a machine: names, containerd's drop-ins, forwarding."""
        self._servers.wait_for_ssh(name)
        hosts = "".join(f"{a} {n}\n" for n, a in self._servers.addresses.items())
        lines = [f"hostnamectl set-hostname {name}", _write("/etc/hosts", hosts, append=True)]
        lines += [_write(f"/etc/containerd/conf.d/{n}", t) for n, t in settings.CONTAINERD.items()]
        lines += ["systemctl restart containerd", "systemctl -q enable kubelet"]
        lines += ["echo 1 >/proc/sys/net/ipv4/ip_forward"]
        self._servers.script(name, "\n".join(lines))

    def init(self) -> None:
        """`kubeadm init` on the first control plane."""
        first = self._control_planes[0]
        endpoint = f"{self._servers.addresses[first]}:6443"
        documents: list[dict[str, Any]] = [
            {
                **_kind("kubeadm.k8s.io/v1beta4", "InitConfiguration"),
                "nodeRegistration": self._registration(first),
                "localAPIEndpoint": {"advertiseAddress": self._servers.addresses[first]},
                "bootstrapTokens": [{"token": self._token}],
                "certificateKey": self._certificate_key,
            },
            {
                **_kind("kubeadm.k8s.io/v1beta4", "ClusterConfiguration"),
                "kubernetesVersion": self._release,
                "controlPlaneEndpoint": endpoint,
                "networking": {"podSubnet": POD_CIDR},
            },
            {**_kind("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"), **settings.KUBELET},
            {
                **_kind("kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration"),
                "mode": "nftables",
                **settings.KUBE_PROXY,
            },
        ]
        flags = "--upload-certs" if len(self._control_planes) > 1 else ""
        self._kubeadm(first, f"init {flags} --skip-token-print", documents)

    def join(self, name: str) -> None:
        """`kubeadm join`, of a control plane or of a worker."""
        document: dict[str, Any] = {
            **_kind("kubeadm.k8s.io/v1beta4", "JoinConfiguration"),
            "nodeRegistration": self._registration(name),
            "discovery": {
                "bootstrapToken": {
                    "token": self._token,
                    "apiServerEndpoint": f"{self._servers.addresses[self._control_planes[0]]}:6443",
                    "unsafeSkipCAVerification": True,
                }
            },
        }
        if name in self._control_planes:
            document["controlPlane"] = {
                "localAPIEndpoint": {"advertiseAddress": self._servers.addresses[name]},
                "certificateKey": self._certificate_key,
            }
        self._kubeadm(name, "join", [document])

    def apply(self, manifests: str) -> None:
        """`kubectl apply` on the first control plane."""
        text = _write("/run/cni.yaml", manifests)
        self._servers.script(self._control_planes[0], f"{text}\n{KUBECTL} apply -f /run/cni.yaml")

    def wait_for_nodes(self, *, ready: bool) -> str:
        """Wait until every node is registered, or Ready; returns kubectl's list of them."""
        wanted = len(self._control_planes) + len(self._workers)
        test = '$2=="Ready"' if ready else "1"
        return self._servers.script(
            self._control_planes[0],
            f"for n in $(seq {READY_SECONDS:.0f}); do"
            f" [ $({KUBECTL} get nodes --no-headers | awk '{test}' | wc -l) = {wanted} ]"
            f" && exec {KUBECTL} get nodes -o json; sleep 1; done;"
            f" {KUBECTL} get nodes,pods -A >&2; exit 1",
        )

    def one_more(self, name: str) -> None:
        """Add a worker, and wait until it is Ready too."""
        self._servers.add({name: FLAVOR})
        self._workers = [*self._workers, name]
        self.configure(name)
        self.join(name)
        self.wait_for_nodes(ready=True)

    def _registration(self, name: str) -> dict[str, Any]:
        address = self._servers.addresses[name]
        return {
            "name": name,
            "kubeletExtraArgs": [{"name": "node-ip", "value": address}],
            "ignorePreflightErrors": settings.IGNORED_PREFLIGHT_ERRORS,
        }

    def _kubeadm(self, name: str, words: str, documents: Sequence[Mapping[str, Any]]) -> None:
        config = _write(FILE, yaml.safe_dump_all(documents))
        self._servers.script(name, f"{config}\nkubeadm {words} --config {FILE}")


def _kind(version: str, kind: str) -> dict[str, str]:
    return {"apiVersion": version, "kind": kind}


def _write(path: str, text: str, *, append: bool = False) -> str:
    operator = ">>" if append else ">"
    return f"mkdir -p {Path(path).parent}; printf %s {shlex.quote(text)} {operator}{path}"


def measure(
    gateways: int, control_planes: int, workers: int, release: str, manifests: str | None
) -> dict[str, float]:
    """Measure the seconds from the start until each step was done."""
    gateway_names = [f"gateway-{n}" for n in range(gateways)]
    control_plane_names = [f"control-plane-{n}" for n in range(control_planes)]
    worker_names = [f"worker-{n}" for n in range(workers)]
    flavors = dict.fromkeys(gateway_names, "lab.1c1g")
    flavors |= dict.fromkeys([*control_plane_names, *worker_names], FLAVOR)
    done: dict[str, float] = {}
    with Servers(NAME, image_name(release)) as servers:
        began, began_at = time.monotonic(), datetime.now(UTC)

        def mark(what: str) -> None:
            done[what] = round(time.monotonic() - began, 1)
            print(f"{done[what]:6.1f} s  {what}", file=sys.stderr, flush=True)

        servers.create(flavors)
        mark("servers asked for")
        bound = Bound(servers, release, control_plane_names, worker_names)
        with ThreadPoolExecutor(32) as threads:
            others = [threads.submit(servers.wait_for_ssh, name) for name in gateway_names]
            configured = {
                name: threads.submit(bound.configure, name)
                for name in (*control_plane_names, *worker_names)
            }
            servers.wait_for_ssh(control_plane_names[0])
            mark("SSH to the first control plane")
            configured[control_plane_names[0]].result()
            bound.init()
            mark("kubeadm init")

            def join(name: str) -> None:
                configured[name].result()
                bound.join(name)
                mark(f"{name} joined")

            others += [threads.submit(join, name) for name in worker_names]
            if manifests is not None:
                others.append(threads.submit(bound.apply, manifests))
            for name in control_plane_names[1:]:
                join(name)
            for other in others:
                other.result()
            listed = bound.wait_for_nodes(ready=manifests is not None)
        if manifests is None:
            mark("all nodes registered")
            return done
        # As the program's own figure: not when a poll saw it.
        done["all nodes Ready"] = until_ready(listed, control_planes + workers, began_at)
        done[ONE_MORE] = seconds(lambda: bound.one_more(f"worker-{workers}"))
    return done


def main(words: Sequence[str] | None = None) -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    cluster_size.add_options(parser)
    parser.add_argument("--release", default=versions.KUBERNETES, help="default: %(default)s")
    parser.add_argument("--cni", type=Path, help="manifests of the pod network")
    arguments = parser.parse_args(words)
    if "OS_CLOUD" not in os.environ:
        parser.error("not inside the lab: python -m lab run -- python -m bench.lower_bound")
    end_cleanly()
    sizes = (arguments.gateways, arguments.control_planes, arguments.workers)
    manifests = arguments.cni and arguments.cni.read_text()
    print(json.dumps(measure(*sizes, arguments.release, manifests)))


if __name__ == "__main__":
    main()
