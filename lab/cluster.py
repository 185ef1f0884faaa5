"""A cluster on the lab's cloud, as its operator sees it: Pulumi's CLI, kubectl, OpenStack's CLI."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from commands.private_file import write_private
from lab.cloud import inside, namespace
from lab.last_update import LAST_UPDATE, changes
from lab.paths import PROJECT
from lab.ssh_host import ssh_command
from lab.stack import Stack
from lab.until import until

# Seconds of a command in the lab.
LONGEST = 900
UP = ("up", "--yes", "--skip-preview", "--suppress-outputs")


class Cluster:
    """One stack and its kubeconfig."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.stack = Stack(name, {"clusterName": name, **settings})
        self.name = name
        self.kubeconfig = self.stack.folder / "kubeconfig"

    def up(self, *flags: str, **settings: Any) -> dict[str, int]:
        """Run `pulumi up` with these keys changed; returns operation -> number of resources."""
        self.update(*flags, **settings)
        self.stack.write_kubeconfig(self.kubeconfig)
        return self.last_changes()

    def update(self, *flags: str, **settings: Any) -> None:
        """Run `pulumi up` with these keys changed and nothing else, which a bench can measure."""
        self.stack.configure(settings)
        self.stack.pulumi(*UP, *flags)

    @property
    def endpoint(self) -> str:
        """URL of the API, through the floating IP."""
        return str(self.stack.outputs()["apiEndpoint"])

    @property
    def floating_ip(self) -> str:
        """The address of the API, on which every gateway has a port of its own for SSH."""
        return _floating_ip(self.stack.outputs())

    def addresses(self) -> dict[str, str]:
        """Name -> address of the nodes in the stack's outputs."""
        return _addresses(self.stack.outputs())

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Make the cluster, and destroy it at the end, however far it came."""
        try:
            self.up()
            yield
        finally:
            self.destroy()

    def killed_up(self, seconds: float, **settings: Any) -> bool:
        """Kill `pulumi up` after so many seconds, as a power cut would; False if it was faster."""
        self.stack.configure(settings)
        return self._killed(self.stack.command("up", "--yes", "--skip-preview"), seconds)

    def killed_fleet(self, said: str, seconds: float, *arguments: str) -> bool:
        """Kill the fleet's command, and no `pulumi`, so many seconds after it has said this."""
        return self._killed([sys.executable, "-m", "commands.fleet", *arguments], seconds, said)

    def _killed(self, command: Sequence[str], seconds: float, said: str = "") -> bool:
        log = self.stack.folder / "killed.log"
        with (
            log.open("w") as output,
            subprocess.Popen(
                namespace.enter(command, folder=PROJECT),
                env=self.stack.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            ) as process,
        ):
            until(lambda: said in log.read_text() or process.poll() is not None, said, 600)
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                # The command is the child of the process that entered the lab.
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
                for pid in children.split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                return True
        assert process.returncode == 0, f"failed before it was killed:\n{log.read_text()}"
        return False

    def recover(self, *options: str) -> str:
        """Run `commands.recover`, as an operator does after that; returns its output."""
        config_file = str(self.stack.config_file)
        return self.command("recover", "--yes", "--config-file", config_file, *options)

    def command(self, name: str, *arguments: str) -> str:
        """Run one of `commands` on this stack; returns its output."""
        return self.run_command(name, "--stack", self.name, *arguments)

    def fleet(self, *arguments: str, statuses: Sequence[int] = (0,)) -> str:
        """Run the fleet's command, which must end with one of these; returns its output."""
        return self.run_command("fleet", *arguments, statuses=statuses)

    @contextlib.contextmanager
    def configured_in_the_checkout(self) -> Iterator[None]:
        """Have the stack's configuration where the fleet's previews and upgrades look for it."""
        link = PROJECT / f"Pulumi.{self.name}.yaml"
        # A test that was killed has left it.
        if link.is_symlink():
            link.unlink()
        link.symlink_to(self.stack.config_file)
        try:
            yield
        finally:
            link.unlink()
            log = PROJECT / f"{self.name}-upgrade.log"
            if log.exists():
                # A failed test shows it.
                print(log.read_text())
                log.unlink()

    def run_command(self, name: str, *arguments: str, statuses: Sequence[int] = (0,)) -> str:
        """Run one of `commands`, which must end with one of these; returns its output."""
        result = subprocess.run(
            namespace.enter([sys.executable, "-m", f"commands.{name}", *arguments], folder=PROJECT),
            env=self.stack.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode in statuses, result.stdout + result.stderr
        return result.stdout

    def last_changes(self) -> dict[str, int]:
        """Return the changes of the last update: operation -> number of resources."""
        return changes(self.stack.pulumi(*LAST_UPDATE, capture=True).stdout)

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        check: bool = True,
        seconds: float = LONGEST,
    ) -> str:
        """Run kubectl through the floating IP; returns its standard output."""
        config = str(self.kubeconfig)
        return run(
            "kubectl", *arguments, stdin=stdin, check=check, seconds=seconds, KUBECONFIG=config
        )

    def kubectl_as(self, token: str, *arguments: str) -> str:
        """Run kubectl with a token; returns its standard output, empty when it is refused."""
        login = yaml.safe_load(self.kubeconfig.read_text())
        login["users"][0]["user"] = {"token": token}
        file = self.stack.folder / "token"
        write_private(file, yaml.safe_dump(login))
        return run("kubectl", *arguments, check=False, KUBECONFIG=str(file))

    def servers(self) -> dict[str, str]:
        """Name -> id of the cluster's servers."""
        listed = openstack("server", "list", "--name", f"^{self.name}-")
        return {server["Name"]: server["ID"] for server in listed}

    def stop(self, *servers: str) -> None:
        """Stop servers, and wait until they are off."""
        run("openstack", "server", "stop", *servers)

        def off() -> bool:
            listed = openstack("server", "list", "--name", f"^{self.name}-")
            states = {server["Name"]: server["Status"] for server in listed}
            return all(states[server] == "SHUTOFF" for server in servers)

        until(off, f"the end of {', '.join(servers)}", 180)

    def nodes(self) -> dict[str, bool]:
        """Name -> Ready of the cluster's nodes."""
        listed = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return {node["metadata"]["name"]: is_ready(node) for node in listed}

    def pods(self) -> list[dict[str, Any]]:
        """Every pod, as the API returns it."""
        listed: dict[str, Any] = json.loads(self.kubectl("get", "pods", "-A", "-o", "json"))
        return list(listed["items"])

    def pods_not_ready(self) -> list[str]:
        """Names of pods that are not Ready; pods of completed jobs do not count."""
        return [
            each["metadata"]["name"]
            for each in self.pods()
            if each["status"]["phase"] != "Succeeded" and not is_ready(each)
        ]

    def wait_for_pods(self, seconds: float) -> None:
        """Wait until all pods are Ready; the error names those that are not."""

        def ready() -> bool:
            left = self.pods_not_ready()
            assert not left, left
            return True

        until(ready, "ready pods", seconds)

    @property
    def ssh_key(self) -> Path:
        """File with the SSH key of the machines."""
        key = self.stack.folder / "ssh_key"
        # Another thread may be reading it.
        new = key.with_name(f"{key.name}.{threading.get_ident()}")
        write_private(new, self.stack.outputs()["sshPrivateKey"])
        return new.rename(key)

    def ssh(self, node: str, command: str) -> str:
        """Run a command on a node, through the active gateway; returns its standard output."""
        # Reading them takes a second: once for both.
        outputs = self.stack.outputs()
        address, jump = _addresses(outputs)[node], _floating_ip(outputs)
        ssh = ssh_command(self.ssh_key)
        proxy = f"{shlex.join(ssh)} -W %h:%p debian@{jump}"
        return run(*ssh, "-o", f"ProxyCommand={proxy}", f"debian@{address}", command)

    def etcdctl(self, control_plane: str, *arguments: str, seconds: float = LONGEST) -> str:
        """Run etcdctl in that control plane's etcd; returns its standard output."""
        pki = "/etc/kubernetes/pki/etcd"
        return self.kubectl(
            *("-n", "kube-system", "exec", f"etcd-{control_plane}", "--", "etcdctl"),
            *("--endpoints=https://127.0.0.1:2379", f"--cacert={pki}/ca.crt"),
            *(f"--cert={pki}/healthcheck-client.crt", f"--key={pki}/healthcheck-client.key"),
            *arguments,
            seconds=seconds,
        )

    def set_secret(self, key: str, value: str) -> None:
        """Run `pulumi config set --secret` with the value on standard input."""
        command = self.stack.command("config", "set", "--secret", key)
        subprocess.run(
            namespace.enter(command, folder=PROJECT),
            env=self.stack.environment(),
            input=value,
            text=True,
            check=True,
        )

    def destroy(self) -> None:
        """Run `pulumi destroy`."""
        self.stack.pulumi("destroy", "--yes", "--skip-preview")


def _floating_ip(outputs: Mapping[str, Any]) -> str:
    return urlsplit(outputs["apiEndpoint"]).hostname or ""


def _addresses(outputs: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["address"] for each in outputs["nodes"]}


def is_ready(node_or_pod: Mapping[str, Any]) -> bool:
    """True if the object is Ready."""
    conditions = node_or_pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def run(
    *command: str,
    stdin: str | None = None,
    check: bool = True,
    seconds: float = LONGEST,
    **environment: str,
) -> str:
    """Run a command inside the lab, for so long at most; returns its standard output."""
    result = subprocess.run(
        namespace.enter(
            command, environment={**inside.environment(), **environment}, folder=PROJECT
        ),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed: {result.stdout}{result.stderr}")
    return result.stdout


def openstack(*arguments: str) -> Any:  # noqa: ANN401
    """Run OpenStack's CLI; returns the list or object that it prints."""
    return json.loads(run("openstack", *arguments, "-f", "json"))


def left_in_project() -> dict[str, list[str]]:
    """Kind -> names of everything in the project that a destroyed cluster must not leave behind."""
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
