"""A live cluster, reached by kubectl and the KUBECONFIG of the environment."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

# An image with sh, httpd, wget and nslookup.
IMAGE = os.environ.get("SMOKE_IMAGE", "docker.io/library/busybox:1.37.0")
PATIENCE = float(os.environ.get("SMOKE_PATIENCE", "180"))


class Live:
    """The cluster, and a namespace for the tests in it."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl in our namespace and return its standard output."""
        result = subprocess.run(
            ["kubectl", f"--namespace={self.namespace}", *arguments],
            input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True, text=True, check=False, timeout=PATIENCE + 60,
        )  # fmt: skip
        if check and result.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def get(self, kind: str, *more: str) -> list[dict[str, Any]]:
        """Return every object of a kind; none if the cluster does not know the kind."""
        text = self.kubectl("get", kind, "-o", "json", *more, check=False)
        items: list[dict[str, Any]] = json.loads(text)["items"] if text else []
        return items

    def has(self, kind: str, name: str, namespace: str) -> bool:
        """True if this object exists."""
        found = self.kubectl("get", kind, name, "-n", namespace, "-o", "name", check=False)
        return bool(found.strip())

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Create or update these objects in our namespace."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def wait(self, what: str, condition: str = "condition=Ready") -> None:
        """Wait until an object meets the condition."""
        self.kubectl("wait", what, f"--for={condition}", f"--timeout={PATIENCE:.0f}s")

    def secret(self, namespace: str, name: str) -> dict[str, str]:
        """Return the decoded content of a Secret."""
        text = self.kubectl("get", "secret", name, "-n", namespace, "-o", "json")
        data: dict[str, str] = json.loads(text)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def service(self, namespace: str, service: str, path: str, **query: str) -> str:
        """Return the answer of a Service, asked through the API server."""
        asked = f"?{urlencode(query)}" if query else ""
        base = f"/api/v1/namespaces/{namespace}/services/{quote(service)}/proxy"
        return self.kubectl("get", "--raw", f"{base}/{path}{asked}")

    @contextmanager
    def forwarded(self, namespace: str, service: str, port: int) -> Iterator[str]:
        """Forward a local port to a Service and yield its URL, for requests with own headers."""
        line = [
            "kubectl",
            f"--namespace={namespace}",
            "port-forward",
            f"service/{service}",
            f":{port}",
        ]
        with subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                said = process.stdout.readline() if process.stdout else ""
                found = re.match(r"Forwarding from (127\.0\.0\.1:\d+)", said)
                assert found, f"port-forward to {service} says {said!r}"
                yield f"http://{found[1]}"
            finally:
                process.terminate()

    def api_host(self) -> str:
        """Return the host of the API in the kubeconfig: the floating IP of the gateways."""
        server = self.kubectl(
            "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
        )
        return urlsplit(server).hostname or ""

    def default_storage_class(self) -> str | None:
        """Return the class of claims that name none."""
        mark = "storageclass.kubernetes.io/is-default-class"
        for each in self.get("storageclasses"):
            if each["metadata"].get("annotations", {}).get(mark) == "true":
                return str(each["metadata"]["name"])
        return None


def direct(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener of URLs that ignores the proxies of the environment."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)


def pod(name: str, *command: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that every Pod Security level allows."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": name,
                    "image": IMAGE,
                    "command": list(command),
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": spec.pop("mounts", []),
                }
            ],
            **spec,
        },
    }


def service(name: str, port: int) -> dict[str, Any]:
    """Return a Service for the pod of the same name, on port 80."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]},
    }


def claim(name: str, **spec: Any) -> dict[str, Any]:
    """Return a claim for a small volume of the default class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def mounting(name: str, claimed: str, *command: str) -> dict[str, Any]:
    """Return a pod with a claim's volume at /data."""
    return pod(
        name,
        *command,
        mounts=[{"name": "data", "mountPath": "/data"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claimed}}],
    )
