"""A fleet without clusters: Pulumi's CLI and ssh are programs in the path, each API is a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.unit import programs
from tests.unit.http_servers import Silent, kubeconfig, kubernetes_api

PROJECT = "p"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"
VERSION = "v1.36.3"

# Answers from files, by the first two words and the stack; a program is run. A stack without an
# answer is locked away by another passphrase.
PULUMI = """\
#!/bin/sh
echo "$@" >>"{folder}/calls"
stack=none file=none previous=
for word in "$@"; do
  case $previous in --stack) stack=$word ;; --config-file) file=$word ;; esac
  previous=$word
done
[ "$1 $2" != "config set" ] || exec sed -i "s/: v.*/: $4/" "$file"
answer="{folder}/$1-$2-$stack"
[ ! -x "$answer" ] || exec "$answer" "$file"
cat "$answer" 2>/dev/null && exit
echo "error: incorrect passphrase" >&2
exit 255
"""
SSH = """\
#!/bin/sh
cat "$2" >"{folder}/config"
cat "$(dirname "$2")/known_hosts" >"{folder}/known_hosts"
stat -c %a "$(dirname "$2")/ssh_key" >"{folder}/mode"
shift 2
echo "$@" >"{folder}/asked"
exit 7
"""


def node(name: str, ready: str = "True", **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "annotations": {f"openstack-kubernetes-{k}": v for k, v in annotations.items()},
        },
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": {"kubeletVersion": VERSION},
        },
    }


def workload(namespace: str, name: str, ready: int) -> dict[str, Any]:
    """A Deployment, or a DaemonSet, of two pods."""
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": 2},
        "status": {
            "desiredNumberScheduled": 2,
            **({"readyReplicas": ready, "numberReady": ready} if ready else {}),
        },
    }


def listed(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"items": list(items)}


# The paths of the API.
NODES = "/api/v1/nodes"
STATIC_PODS = "/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane"
APPS = "/apis/apps/v1"
# A healthy cluster.
ANSWERS: Mapping[str, Any] = {
    "/version": {"gitVersion": VERSION},
    "/readyz": "ok",
    NODES: listed(node("demo-worker-0"), node("metal-0")),
    STATIC_PODS: listed(node("etcd-demo-control-plane-0")),
    f"{APPS}/deployments": listed(workload("kube-system", "coredns", 2)),
    f"{APPS}/statefulsets": listed(),
    f"{APPS}/daemonsets": listed(workload("kube-system", "cilium", 2)),
}


class Fleet:
    """A folder with a backend's answers, and the APIs of its clusters."""

    def __init__(self, folder: Path, pem: Path, servers: ExitStack) -> None:
        self.folder = folder
        self._pem = pem
        self._servers = servers
        self._names: list[str] = []
        for name, text in (("pulumi", PULUMI), ("ssh", SSH)):
            self.program(name, text.format(folder=folder))
        self.write("whoami---json-none", {"url": f"file://{folder}/backend"})
        self.write("Pulumi.yaml", {"name": PROJECT})
        self._states = folder / "backend/.pulumi/stacks" / PROJECT
        self._states.mkdir(parents=True)

    def write(self, name: str, answer: object) -> Path:
        file = self.folder / name
        file.write_text(json.dumps(answer))
        return file

    def program(self, name: str, text: str) -> None:
        programs.program(self.folder / name, text)

    @property
    def calls(self) -> list[str]:
        """Command lines of the CLI."""
        return (self.folder / "calls").read_text().splitlines()

    def called(self, text: str) -> list[str]:
        return [line for line in self.calls if text in line]

    def sealed(self, name: str) -> None:
        """Add a stack that cannot be decrypted."""
        if name not in self._names:
            self._names.append(name)
        self.write("stack-ls-none", [{"name": each} for each in self._names])
        for ending in ("", ".attrs", ".bak", ".bak.attrs"):
            (self._states / f"{name}.json{ending}").touch()
        # It is not encrypted.
        self.write(f"stack-history-{name}", [])

    def gone(self, name: str) -> None:
        """Remove a stack; its copies stay."""
        self._names.remove(name)
        self.write("stack-ls-none", [{"name": each} for each in self._names])
        (self._states / f"{name}.json").unlink()

    def empty(self, name: str) -> None:
        """Add a stack without a cluster."""
        self.sealed(name)
        self.write(f"stack-output-{name}", {})
        self.write(f"stack-export-{name}", {"deployment": {}})

    def stack(self, name: str, url: str, *, result: str = "succeeded") -> None:
        """Add a stack whose cluster has its API at this URL."""
        self.sealed(name)
        self.write(f"stack-output-{name}", outputs(kubeconfig(url, self._pem)))
        self.history(name, result)
        self.write(f"stack-export-{name}", {"deployment": {"resources": resources(name)}})

    def history(self, name: str, result: str) -> None:
        """Note the last update of a stack."""
        update = {"kind": "update", "result": result, "endTime": "2026-11-22T03:04:05.000Z"}
        self.write(f"stack-history-{name}", [update])

    def configure(self, name: str) -> None:
        """Make the configuration of a stack, without a key."""
        self.write(f"Pulumi.{name}.yaml", {})

    def cluster(
        self, name: str, answers: Mapping[str, Any] = ANSWERS, *, result: str = "succeeded"
    ) -> str:
        """Add a stack with a living cluster; returns the URL of its API.

        The API answers from a file, `NAME.api`.
        """
        file = self.write(f"{name}.api", {**ANSWERS, **answers})
        return self.api(name, _api(file), result=result)

    def api(self, name: str, handler: type[Silent], *, result: str = "succeeded") -> str:
        """Add a stack whose cluster has this API; returns its URL."""
        url = self._servers.enter_context(kubernetes_api(handler, self._pem))
        self.stack(name, url, result=result)
        return url


def _api(file: Path) -> type[Silent]:
    class Api(Silent):
        def do_GET(self) -> None:  # noqa: N802
            found = json.loads(file.read_text()).get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

    return Api


def outputs(kubeconfig: str) -> dict[str, Any]:
    return {
        "kubeconfig": kubeconfig,
        "kubernetesVersion": VERSION,
        "apiEndpoint": "https://198.51.100.7:6443",
        "clusterId": "demo-1a2b3c4d",
        "version": "0.1.0",
        "immutableSettings": {
            "hostCidr": "10.8.0.0/22",
            "podCidr": "10.244.0.0/16",
            "serviceCidr": "10.96.0.0/16",
            "sshUser": "debian",
        },
        "gateways": [{"name": f"demo-gateway-{i}", "address": f"10.8.0.1{i}"} for i in range(2)],
        "nodes": [
            {"name": "demo-worker-0", "address": "10.8.0.31"},
            {"name": "metal-0", "address": "10.9.0.60"},
        ],
        "sshPrivateKey": KEY,
    }


def resources(stack: str) -> list[dict[str, Any]]:
    return [
        host_key(stack, "demo-gateway"),
        host_key(stack, "demo-worker-0"),
        host_key(stack, "demo-worker-0", "one-time-host-key"),
        {
            "type": "kubernetes:core/v1:Namespace",
            "urn": f"urn:pulumi:{stack}::p::kubernetes:core/v1:Namespace::demo-addons-ingress",
            "inputs": {"metadata": {"name": "ingress"}},
        },
    ]


def host_key(stack: str, machine: str, kind: str = "host-key") -> dict[str, Any]:
    return {
        "type": "tls:index/privateKey:PrivateKey",
        "urn": f"urn:pulumi:{stack}::p::tls:index/privateKey:PrivateKey::{machine}-{kind}",
        "outputs": {"publicKeyOpenssh": f"key of {machine} {kind}\n"},
    }


def pending(operation: str, resource: str) -> dict[str, Any]:
    return {"type": operation, "resource": {"urn": f"urn:pulumi:live::p::a:b:C::{resource}"}}
