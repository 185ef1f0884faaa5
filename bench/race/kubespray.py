"""kubespray in the race: its own playbooks, as its documentation says, on the SDK's servers.

Run it inside the lab; `python -m bench.race` does. Prints the steps as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import yaml

from bench.cluster import until_ready
from bench.figures import end_cleanly
from bench.race import step
from bench.race.inventory import ARCHIVES, ARTIFACTS, LAB, PARTS, PORT, downloads, inventory
from bench.race.step import Step, measured
from bench.servers import Servers
from lab.image import versions
from lab.poll import Poll

NAME = "race-kubespray"
GATEWAY = "gateway-0"
CONTROL_PLANES = ("control-plane-0", "control-plane-1", "control-plane-2")
WORKERS = ("worker-0", "worker-1")
LOST, ITS_REPLACEMENT, ONE_MORE = "control-plane-2", "control-plane-3", "worker-2"
FORKS = 20
PREPARE = Path(__file__).with_name("prepare.sh")

# As in front of the program's API servers.
HAPROXY = """
defaults
  mode tcp
  option redispatch 1
  retries 4
  timeout connect 1s
  timeout check 2s
  timeout client 1h
  timeout server 1h
listen kubernetes
  bind :{port}
  balance roundrobin
  option httpchk GET /readyz
{servers}
"""
SERVER = (
    "  server {name} {address}:{port} check check-ssl verify none"
    " inter 500ms fastinter 200ms downinter 500ms fall 2 rise 1 tcp-ut 2s"
)
# kubespray puts all objects of a pod network into one namespace.
CNI_NAMESPACE, ITS_SECRETS = "kube-system", "cilium-secrets"
KUBECTL = "/usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf"


class Kubespray:
    """One cluster of kubespray's, from a checkout whose requirements `programs` has."""

    def __init__(
        self, servers: Servers, checkout: Path, programs: Path, manifests: Path, logs: Path
    ) -> None:
        self._servers, self._checkout, self._programs = servers, checkout, programs
        self._manifests, self._logs = manifests, logs
        self._inventory = servers.ssh_config.with_name("inventory.yaml")
        self._control_planes, self._workers = list(CONTROL_PLANES), list(WORKERS)
        self._lost: list[str] = []
        self._sums: dict[str, str] = {}
        self._plays = 0

    def create_servers(self) -> float:
        """Create the servers; returns the seconds until all of them answered SSH."""
        nodes = dict.fromkeys([*CONTROL_PLANES, *WORKERS], "lab.2c3g")
        return self._request(self._servers.create, {GATEWAY: "lab.1c1g", **nodes})

    def add_server(self, name: str) -> float:
        """Create one more server; returns the seconds until it answered SSH."""
        return self._request(self._servers.add, {name: "lab.2c3g"})

    def write_inventory(self, release: str) -> None:
        """Write the inventory, and the load balancer's list of API servers."""
        addresses = self._servers.addresses
        control_planes = {name: addresses[name] for name in self._control_planes}
        cni = self._inventory.with_name("pod-network.yaml")
        cni.write_text(self._manifests.read_text().replace(ITS_SECRETS, CNI_NAMESPACE))
        variables = {
            **LAB,
            **PARTS,
            **downloads(release, self._sums),
            "ansible_ssh_common_args": f"-F {self._servers.ssh_config}",
            "custom_cni_manifests": [str(cni)],
            "loadbalancer_apiserver": {"address": addresses[GATEWAY], "port": PORT},
            "supplementary_addresses_in_ssl_keys": [self._servers.floating_ip],
        }
        workers = {name: addresses[name] for name in self._workers}
        written = inventory(control_planes, workers, self._lost, variables)
        self._inventory.write_text(yaml.safe_dump(written, sort_keys=False))
        lines = [
            SERVER.format(name=name, address=address, port=PORT)
            for name, address in control_planes.items()
            if name not in self._lost
        ]
        config = HAPROXY.format(port=PORT, servers="\n".join(lines))
        self._servers.script(
            GATEWAY,
            f"cat >/etc/haproxy/haproxy.cfg <<'EOF'{config}EOF\n"
            "systemctl -q enable haproxy; systemctl restart haproxy",
        )

    def play(self, playbook: str, *flags: str) -> None:
        """Run a playbook.

        Raises:
            RuntimeError: it failed; the end of its output is in the message.
        """
        self._plays += 1
        log = self._logs / f"{self._plays:02}-{Path(playbook).stem}.log"
        own = {
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self._inventory.with_name("facts")),
            # Connections of another run lead to other machines with the same addresses.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self._inventory.with_name("cp")),
        }
        with log.open("w") as output:
            result = subprocess.run(
                [
                    str(self._programs / "ansible-playbook"),
                    f"--inventory={self._inventory}",
                    f"--forks={FORKS}",
                    # The machines cannot reach a package repository; the image has the packages.
                    "--skip-tags=system-packages",
                    *flags,
                    playbook,
                ],
                cwd=self._checkout,
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if result.returncode != 0:
            raise RuntimeError(f"{playbook} failed:\n{log.read_text()[-8000:]}")

    def race(self, old: str, new: str) -> Iterator[tuple[str, Step]]:
        """Run every step, and give each one with its name as soon as it is done."""
        yield step.CREATE, self._create(old)
        yield step.ONE_MORE_WORKER, self._add_worker(old)
        yield step.NO_CHANGE, measured(lambda: self.play("cluster.yml"), by_hand=1)
        yield step.LOST_CONTROL_PLANE, self._replace_control_plane(old)
        yield step.UPGRADE, self._upgrade(new)

    def _create(self, release: str) -> Step:
        servers = self.create_servers()
        self.write_inventory(release)
        began = datetime.now(UTC)
        # The servers, the load balancer, the inventory, the playbook.
        created = measured(lambda: self.play("cluster.yml"), by_hand=4, servers=servers)
        return dataclasses.replace(created, seconds=self._ready(began, release))

    def _add_worker(self, release: str) -> Step:
        began = datetime.now(UTC)
        servers = self.add_server(ONE_MORE)
        self._workers.append(ONE_MORE)
        self.write_inventory(release)

        def scale() -> None:
            self.play("playbooks/facts.yml")
            self.play("scale.yml", f"--limit={ONE_MORE}")
            self._ready(began, release)

        # The server, the inventory, two playbooks (docs/operations/nodes.md).
        return measured(scale, by_hand=4, servers=servers)

    def _replace_control_plane(self, release: str) -> Step:
        began = datetime.now(UTC)
        self._servers.delete(LOST)
        servers = self.add_server(ITS_REPLACEMENT)
        self._lost.append(LOST)
        self._control_planes.append(ITS_REPLACEMENT)
        self.write_inventory(release)

        def recover() -> None:
            # The playbook asks for facts of the new machine that nothing has gathered.
            self.play("playbooks/facts.yml")
            flags = ("--limit=etcd,kube_control_plane", "--extra-vars=etcd_retries=10")
            self.play("recover-control-plane.yml", *flags)
            self._lost.clear()
            self._control_planes.remove(LOST)
            self._ready(began, release)

        # The server, the inventory before and after it, the load balancer, two playbooks
        # (docs/operations/recover-control-plane.md).
        return measured(recover, by_hand=6, servers=servers)

    def _upgrade(self, release: str) -> Step:
        began = datetime.now(UTC)
        self.write_inventory(release)

        def upgrade() -> None:
            self.play("upgrade-cluster.yml")
            self._ready(began, release)

        with Poll(f"https://{self._servers.floating_ip}:{PORT}", inside=True) as poll:
            # The inventory, the playbook.
            upgraded = measured(upgrade, by_hand=2)
        return dataclasses.replace(upgraded, failed=poll.failed, silence=poll.longest)

    def _ready(self, began: datetime, release: str) -> float:
        """Wait until every machine of the inventory is a Ready node; seconds until that was so.

        Raises:
            AssertionError: not within five minutes, or one is of another release.
        """
        count = len(self._control_planes) + len(self._workers)
        # The API may be restarting.
        wait = (
            f"for try in $(seq 300); do"
            f" nodes=$({KUBECTL} get nodes --no-headers 2>/dev/null) || nodes=;"
            f' [ "$(grep -c " Ready " <<<"$nodes")" = {count} ] && break; sleep 1; done'
        )
        listed = self._servers.script(
            CONTROL_PLANES[0], f"set +e; {wait}\n{KUBECTL} get nodes -o json"
        )
        return until_ready(listed, count, began, release)

    def _request(self, request: Callable[[dict[str, str]], None], flavors: dict[str, str]) -> float:
        with ThreadPoolExecutor(len(flavors)) as threads:
            began = time.monotonic()
            request(flavors)
            list(threads.map(self._servers.wait_for_ssh, flavors))
            taken = time.monotonic() - began
            list(threads.map(self._prepare, set(flavors) - {GATEWAY}))
        return taken

    def _prepare(self, name: str) -> None:
        """Put archives of the image's programs on a machine; all have the same ones."""
        variables = f"ETCD_VERSION={versions.ETCD} ARTIFACTS={ARTIFACTS} ARCHIVES={ARCHIVES}"
        said = self._servers.script(name, f"{variables}\n{PREPARE.read_text()}")
        self._sums = {file: total for total, file in map(str.split, said.splitlines())}


def main() -> None:
    """Race once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkout", type=Path, required=True, help="kubespray")
    parser.add_argument("--programs", type=Path, required=True, help="where Ansible is installed")
    parser.add_argument("--manifests", type=Path, required=True, help="the pod network")
    parser.add_argument("--logs", type=Path, required=True, help="folder for the playbooks' output")
    parser.add_argument("--image", required=True)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    given = parser.parse_args()
    end_cleanly()
    done: dict[str, Step] = {}
    try:
        # Standard output is for the steps alone.
        with contextlib.redirect_stdout(sys.stderr), Servers(NAME, given.image) as servers:
            made = Kubespray(servers, given.checkout, given.programs, given.manifests, given.logs)
            for name, taken in made.race(given.old, given.new):
                done[name] = taken
                print(f"{taken.seconds:6.0f} s  {name}", file=sys.stderr, flush=True)
    finally:
        print(json.dumps({what: dataclasses.asdict(made) for what, made in done.items()}))


if __name__ == "__main__":
    main()
