"""Stack of the program `programs/cloud`, changed step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.image import name as image_name
from lab.image import versions
from lab.ssh_host import SshHost
from tests.lab.engine import Program
from tests.lab.programs.cloud.networks import ADDRESSES, MOVING

# The image with keepalived.
NODE_IMAGE = image_name(versions.KUBERNETES)
SMALL, LARGER = "lab.1c1g", "lab.1c2g"

USER_DATA = """\
#cloud-config
write_files:
  - path: /etc/keepalived/keepalived.conf
    content: |
      global_defs {{
        vrrp_version 3
      }}
      vrrp_instance test {{
        state BACKUP
        nopreempt
        interface eth0
        virtual_router_id 67
        priority 100
        advert_int 0.3
        unicast_src_ip {own}
        unicast_peer {{
          {peer}
        }}
        virtual_ipaddress {{
          {moving}/32 dev eth0
        }}
      }}
runcmd:
  - systemctl restart keepalived
  - systemd-run --unit web python3 -m http.server {web}
"""
# Not SSH: sshd blocks clients that connect often and never log in.
WEB = 8080


def gateway(name: str, peer: str, *, config_drive: bool) -> dict[str, Any]:
    """Settings of a server that takes the moving address when its peer does not have it."""
    return {
        "image": NODE_IMAGE,
        "flavor": SMALL,
        "policy": "soft-anti-affinity",
        "configDrive": config_drive,
        "userData": USER_DATA.format(
            own=ADDRESSES[name], peer=ADDRESSES[peer], moving=MOVING, web=WEB
        ),
    }


class Steps:
    """The stack and its present configuration; `change` changes it and runs an update."""

    def __init__(self, program: Program, key: Path) -> None:
        self.program = program
        self.key = key
        self.want: dict[str, Any] = {
            "ports": [22],
            "moving": False,
            "floating": ["a", "b", "moving"],
            "servers": {
                "a": gateway("a", "b", config_drive=True),
                "b": gateway("b", "a", config_drive=False),
            },
            "volume": "",
            "credential": True,
        }
        program.configure(publicKey=key.with_suffix(".pub").read_text())

    def change(self, ok: bool = True, **keys: object) -> dict[str, int]:
        """Run an update with these keys changed; returns operation -> number of resources."""
        self.want.update(keys)
        self.program.configure(want=self.want)
        changes = self.program.up(ok=ok)
        self.outputs = self.program.outputs()
        return changes

    def host(self, name: str) -> SshHost:
        """A server, or whichever has the moving address, by its floating IP."""
        return SshHost(name, self.key, self.outputs["addresses"][name])

    def active(self) -> str:
        """The name of the server that has the moving address: a or b."""
        command = "ip -4 address"
        return "".join(n for n in ("a", "b") if f" {MOVING}/" in self.host(n).ssh(command))
