"""A cluster's gateways, each with an SSH connection of its own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from config import ports
from lab.cluster import Cluster, run
from lab.ssh_host import BOOT_ID, ssh_command

NODE_ENV = "/etc/openstack-kubernetes/node.env"
REBOOT = "openstack-kubernetes-reboot.service"


@dataclass
class Gateway:
    """One gateway, by its index."""

    cluster: Cluster
    index: int

    @cached_property
    def address(self) -> str:
        """The floating IP, on which every gateway has a port of its own."""
        return self.cluster.floating_ip

    @cached_property
    def key(self) -> Path:
        """File with the SSH key, as the stack has it now."""
        return self.cluster.ssh_key

    @cached_property
    def vip(self) -> str:
        """The address that the active gateway has."""
        return self.ssh(f". {NODE_ENV}; echo $VIP")

    def ssh(self, command: str) -> str:
        """Run a command there; returns its output, empty when the gateway cannot be reached."""
        ssh = ssh_command(self.key, connect=3, alive=2)
        port = str(ports.FIRST_GATEWAY_SSH + self.index)
        return run(*ssh, "-p", port, f"debian@{self.address}", command, check=False).strip()

    def is_active(self) -> bool:
        """True if it has the VIP."""
        return bool(self.ssh(f"ip -o -4 address show to {self.vip}/32"))

    def boot_id(self) -> str:
        """Id of its current boot; empty while it is down."""
        return self.ssh(BOOT_ID)

    def ask(self) -> None:
        """Run the reboot service, as the timer does: it reboots only when it may."""
        # In a second, since no one may be logged in; then wait until it has decided.
        soon = "--on-active=1 --timer-property=AccuracySec=100ms"
        self.ssh(f"sudo systemd-run --quiet {soon} systemctl start {REBOOT}")
        time.sleep(3)
