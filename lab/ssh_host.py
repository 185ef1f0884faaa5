"""SSH to a server of the lab."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.until import until

PATIENCE = 120.0
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def make_key(folder: Path, name: str = "key") -> Path:
    """Make a new SSH key without a comment; its public half is next to it."""
    key = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
    subprocess.run(command, check=True)
    return key


def ssh_command(key: Path, *, connect: int = 10, alive: int = 5) -> list[str]:
    """The start of an SSH login with this key alone, to whichever host key answers.

    It gives up when a connection takes more than `connect` seconds, or when the machine answers
    three questions in a row, one every `alive` seconds, with silence.
    """
    options = (
        "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR",
        "BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none",
        f"ConnectTimeout={connect}", f"ServerAliveInterval={alive}",
    )  # fmt: skip
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-F", "/dev/null", "-i", str(key), *words]


@dataclass
class SshHost:
    """A machine at an address, with the image's user."""

    name: str
    key: Path
    address: str

    def ssh(self, command: str, *, ok: bool = True) -> str:
        """Run a command as the image's user; returns its output."""
        result = self._ssh(command, timeout=10)
        if ok and result.returncode != 0:
            raise AssertionError(f"{command}: {result.returncode}: {result.stderr}")
        return result.stdout.strip()

    def fails(self, command: str) -> bool:
        """True if a command fails; a lost connection counts too."""
        return self._ssh(command, timeout=10).returncode != 0

    def wait_for_ssh(self) -> None:
        """Wait until an SSH login works."""
        until(lambda: not self._ssh("true", timeout=2).returncode, f"SSH to {self.name}", PATIENCE)

    def boot_id(self) -> str:
        """Id of the current boot, by which Kubernetes tells boots apart too."""
        return self.ssh(BOOT_ID)

    def has_booted_since(self, before: str) -> bool:
        """True if it is up with another boot; a connection that the reboot ends says no."""
        return self.ssh(BOOT_ID, ok=False) not in ("", before)

    def _ssh(self, command: str, timeout: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*ssh_command(self.key, connect=timeout), f"debian@{self.address}", command],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
