"""The user_data of a server: only what never changes, and no secret of use after its first boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from config.models.mirrors import PackageMirrors

BOOT_FOLDER = "/etc/openstack-kubernetes/boot"


def user_data(
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

    `host_key` is the one-time SSH host key (ED25519). `files` are written below `BOOT_FOLDER`, mode
    0600; `commands` run once, after the packages.
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
            # As long as it is there, sshd ends each connection, and the provider makes one through
            # a gateway only once. Ubuntu's sshd answers before systemd has removed it.
            ["rm", "-f", "/run/nologin"],
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
        # Not by cloud-init's own `ssh_pwauth`: that restarts sshd while the first connection may be
        # open already.
        {
            "path": "/etc/ssh/sshd_config.d/10-openstack-kubernetes.conf",
            "permissions": "0644",
            "content": "PasswordAuthentication no\n",
        },
        *(
            {"path": f"{BOOT_FOLDER}/{path}", "permissions": "0600", "content": content}
            for path, content in sorted((files or {}).items())
        ),
    ]
    if commands:
        document["runcmd"] = [list(command) for command in commands]
    return "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False, width=10**6)
