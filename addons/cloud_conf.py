"""The file cloud.conf, by which the programs of cloud-provider-openstack reach the cloud."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from addons.installer import Installer

Sections = Mapping[str, Mapping[str, pulumi.Input[str]]]
KnownSections = Mapping[str, Mapping[str, str]]

MOUNT = "/etc/config"
FILE = "cloud.conf"
CA_FILE = "ca.crt"


@dataclass(frozen=True, kw_only=True)
class Credential:
    """An application credential, and the cloud that accepts it."""

    auth_url: pulumi.Input[str]
    region: pulumi.Input[str]
    id: pulumi.Input[str]
    secret: pulumi.Input[str]
    # PEM, for clouds whose certificate no public CA has signed.
    ca_certificate: pulumi.Input[str] | None = None

    def sections(self) -> Sections:
        """Return the sections of cloud.conf that log in."""
        options = {
            "auth-url": self.auth_url,
            "region": self.region,
            "application-credential-id": self.id,
            "application-credential-secret": self.secret,
        }
        if self.ca_certificate is not None:
            options["ca-file"] = f"{MOUNT}/{CA_FILE}"
        return {"Global": options}


def secret(
    installer: Installer,
    name: str,
    sections: Sections,
    overrides: KnownSections,
    ca_certificate: pulumi.Input[str] | None = None,
) -> Secret:
    """Create a Secret in kube-system with a cloud.conf; `overrides` win, key by key."""
    config: pulumi.Output[str] = pulumi.Output.from_input(sections).apply(
        lambda known: text(cast("KnownSections", known), overrides)
    )
    files = {FILE: config} if ca_certificate is None else {FILE: config, CA_FILE: ca_certificate}
    return installer.secret(name, "kube-system", pulumi.Output.all(**files))


def checksum(config: Secret) -> pulumi.Output[str]:
    """Return a hash of the Secret, which makes new pods: programs read the file only once."""
    digest = config.data.apply(
        lambda data: hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    )
    # The hash of a long random secret reveals nothing about it.
    return pulumi.Output.unsecret(digest)


def text(sections: KnownSections, overrides: KnownSections) -> str:
    """Return the file in the syntax of gcfg: `[Section]` and `key = "value"`."""
    lines: list[str] = []
    for section in dict.fromkeys((*sections, *overrides)):
        options = {**sections.get(section, {}), **overrides.get(section, {})}
        lines.append(f"[{section}]")
        # gcfg escapes a quote, a backslash and a line break as JSON does.
        lines += [
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in options.items()
        ]
    return "\n".join(lines) + "\n"
