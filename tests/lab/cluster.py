"""A cluster on the lab's cloud, as its operator sees it: Pulumi's CLI, kubectl, OpenStack's CLI."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.cloud import inside, namespace
from lab.paths import PROJECT
from lab.stack import Stack

UP = ("up", "--yes", "--skip-preview", "--suppress-outputs")


class Cluster:
    """One stack with its kubeconfig."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.stack = Stack(name, {"clusterName": name, **settings})
        self.name = name
        self.kubeconfig = self.stack.folder / "kubeconfig"

    def up(self, *flags: str, **settings: Any) -> dict[str, int]:
        """`pulumi up` with these keys changed; how many resources it created, changed, ..."""
        self.stack.configure(settings)
        self.stack.pulumi(*UP, *flags)
        self.stack.write_kubeconfig(self.kubeconfig)
        return self.last_changes()

    def killed_up(self, seconds: float, **settings: Any) -> None:
        """`pulumi up`, killed after so many seconds as by a power cut: nothing can be tidied up."""
        self.stack.configure(settings)
        with subprocess.Popen(
            namespace.enter(self.stack.command("up", "--yes", "--skip-preview"), environment={}),
            cwd=PROJECT,
            env=self.stack.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as update:
            time.sleep(seconds)
            assert update.poll() is None, f"the update was over before {seconds} s"
            # The CLI is the child of the process that entered the lab.
            for pid in Path(f"/proc/{update.pid}/task/{update.pid}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)

    def recover(self) -> str:
        """What an operator types after that; what it said."""
        result = subprocess.run(
            namespace.enter(
                [
                    *(sys.executable, "-m", "commands.recover", "--yes", "--stack", self.name),
                    *("--config-file", str(self.stack.config_file)),
                ],
                environment={},
            ),
            cwd=PROJECT,
            env=self.stack.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def last_changes(self) -> dict[str, int]:
        """What the last update did: operation to number of resources that changed."""
        history = json.loads(
            self.stack.pulumi("stack", "history", "--json", "--page-size", "1", capture=True).stdout
        )
        changes: dict[str, int] = history[0].get("resourceChanges") or {}
        return {
            operation: count
            for operation, count in changes.items()
            if operation not in ("same", "read")
        }

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Standard output of kubectl, through the floating IP."""
        return run("kubectl", *arguments, stdin=stdin, check=check, KUBECONFIG=str(self.kubeconfig))

    def nodes(self) -> dict[str, bool]:
        """The cluster's nodes, and whether each is Ready."""
        listed = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return {node["metadata"]["name"]: is_ready(node) for node in listed}

    def pods(self) -> list[dict[str, Any]]:
        """Every pod, as the API has it."""
        listed: dict[str, Any] = json.loads(self.kubectl("get", "pods", "-A", "-o", "json"))
        return list(listed["items"])

    def pods_not_ready(self) -> list[str]:
        """The names of pods that still start; those of jobs that are done do not count."""
        return [
            each["metadata"]["name"]
            for each in self.pods()
            if each["status"]["phase"] != "Succeeded" and not is_ready(each)
        ]

    @cached_property
    def ssh_key(self) -> Path:
        """A file with the key to the machines."""
        key = self.stack.folder / "ssh_key"
        key.touch(mode=0o600)
        key.write_text(self.stack.outputs()["sshPrivateKey"])
        return key

    def ssh(self, node: str, command: str) -> str:
        """Standard output of a command on a node, by way of the gateway that is active."""
        outputs = self.stack.outputs()
        (address,) = (each["address"] for each in outputs["nodes"] if each["name"] == node)
        jump = outputs["apiEndpoint"].removeprefix("https://").removesuffix(":6443")
        key = self.ssh_key
        quiet = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        login = f"ssh {quiet} -o BatchMode=yes -i {key}"
        through = f"{login} -W %h:%p debian@{jump}"
        return run(*login.split(), "-o", f"ProxyCommand={through}", f"debian@{address}", command)

    def etcdctl(self, control_plane: str, *arguments: str) -> str:
        """Standard output of etcdctl in that control plane's etcd."""
        pki = "/etc/kubernetes/pki/etcd"
        return self.kubectl(
            *("-n", "kube-system", "exec", f"etcd-{control_plane}", "--", "etcdctl"),
            *("--endpoints=https://127.0.0.1:2379", f"--cacert={pki}/ca.crt"),
            *(f"--cert={pki}/healthcheck-client.crt", f"--key={pki}/healthcheck-client.key"),
            *arguments,
        )

    def set_secret(self, key: str, value: str) -> None:
        """`pulumi config set --secret`; the value goes by standard input."""
        command = self.stack.command("config", "set", "--secret", key)
        subprocess.run(
            namespace.enter(command, environment={}),
            cwd=PROJECT,
            env=self.stack.environment(),
            input=value,
            text=True,
            check=True,
        )

    def destroy(self) -> None:
        """`pulumi destroy`, and the stack with it."""
        self.stack.pulumi("destroy", "--yes", "--skip-preview")


def is_ready(node_or_pod: Mapping[str, Any]) -> bool:
    """Whether the object says Ready."""
    conditions = node_or_pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def run(*command: str, stdin: str | None = None, check: bool = True, **environment: str) -> str:
    """Standard output of a command inside the lab."""
    result = subprocess.run(
        namespace.enter(command, environment={**inside.environment(), **environment}),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed: {result.stdout}{result.stderr}")
    return result.stdout


def openstack(*arguments: str) -> Any:  # noqa: ANN401
    """What OpenStack's CLI lists or shows, as data."""
    return json.loads(run("openstack", *arguments, "-f", "json"))


def left_in_project() -> dict[str, list[str]]:
    """Everything that a destroyed cluster must not leave behind, by kind; empty kinds left out."""
    kinds = {
        "server": ("server", "list"),
        "volume": ("volume", "list"),
        "port": ("port", "list"),
        "router": ("router", "list"),
        "floating ip": ("floating", "ip", "list"),
        "server group": ("server", "group", "list"),
        "application credential": ("application", "credential", "list"),
    }
    found = {kind: [str(each) for each in openstack(*words)] for kind, words in kinds.items()}
    found["network"] = [n["Name"] for n in openstack("network", "list", "--internal")]
    found["security group"] = [
        g["Name"] for g in openstack("security", "group", "list") if g["Name"] != "default"
    ]
    return {kind: names for kind, names in found.items() if names}
