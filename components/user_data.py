"""The user_data of a machine: only what never changes, and nothing of use after first contact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from config.models.surroundings import PackageMirrors


def cloud_config(
    *,
    name: str,
    user: str,
    ssh_public_key: str,
    host_key: str,
    host_public_key: str,
    files: Mapping[str, str] | None = None,
    mirrors: PackageMirrors | None = None,
    packages: Sequence[str] = (),
    commands: Sequence[Sequence[str]] = (),
) -> str:
    """A #cloud-config text.

    `host_key` is the one-time SSH host key (ED25519). `files` are written below
    /etc/openstack-kubernetes/boot, mode 0600; `commands` run once, after the packages.
    """
    document: dict[str, object] = {
        "hostname": name,
        "preserve_hostname": False,
        # A cloud image's own user with sudo, under the name that the configuration gives.
        "system_info": {"default_user": {"name": user}},
        "ssh_authorized_keys": [ssh_public_key],
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": host_key, "ed25519_public": host_public_key},
        # First boot must not fight with apt's timers for the package lock.
        "bootcmd": [
            ["systemctl", "mask", "--now", "apt-daily.timer", "apt-daily-upgrade.timer"],
        ],
    }
    if mirrors is not None and mirrors.distribution is not None:
        document["apt"] = {
            # Debian's images say otherwise, and would keep their own sources.
            "preserve_sources_list": False,
            "disable_suites": ["backports"],
            "primary": [{"arches": ["default"], "uri": mirrors.distribution.archive}],
            "security": [{"arches": ["default"], "uri": mirrors.distribution.security}],
        }
    if packages:
        document |= {"package_update": True, "packages": list(packages)}
    document["write_files"] = [
        # Not by cloud-init's own `ssh_pwauth`: that starts sshd a second time, under the feet of
        # whoever was quick enough to connect.
        {
            "path": "/etc/ssh/sshd_config.d/10-openstack-kubernetes.conf",
            "permissions": "0644",
            "content": "PasswordAuthentication no\n",
        },
        *(
            {
                "path": f"/etc/openstack-kubernetes/boot/{path}",
                "permissions": "0600",
                "content": content,
            }
            for path, content in sorted((files or {}).items())
        ),
    ]
    if commands:
        document["runcmd"] = [list(command) for command in commands]
    return "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False, width=10**6)
