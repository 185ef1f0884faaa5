"""The file cloud.conf, by which the programs of cloud-provider-openstack reach the cloud.

It is on the control planes and in no Secret: an ingress controller can read all Secrets.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pulumi

Sections = Mapping[str, Mapping[str, pulumi.Input[str]]]
KnownSections = Mapping[str, Mapping[str, str]]

MOUNT = "/etc/config"
FILE = "cloud.conf"
CA_FILE = "ca.crt"
# On a control plane: a folder for each program.
_FOLDER = "/etc/kubernetes/cloud"


@dataclass(frozen=True, kw_only=True)
class Credential:
    """An application credential, and the cloud that accepts it."""

    auth_url: pulumi.Input[str]
    region: pulumi.Input[str]
    id: pulumi.Input[str]
    secret: pulumi.Input[str]
    # PEM, for clouds whose certificate no public CA has signed.
    ca_certificate: pulumi.Input[str] | None = None
    # Whether the cloud's certificate is not verified.
    insecure: bool = False

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
        if self.insecure:
            options["tls-insecure"] = "true"
        return {"Global": options}


class CloudConfig:
    """The folder of one program that logs in to the cloud."""

    def __init__(
        self,
        program: str,
        credential: Credential,
        overrides: KnownSections,
        sections: Sections | None = None,
    ) -> None:
        """Log in by `credential`; `overrides` win over the other sections, key by key."""
        self.host_path = f"{_FOLDER}/{program}"
        config: pulumi.Output[str] = pulumi.Output.from_input(
            {**credential.sections(), **(sections or {})}
        ).apply(lambda known: text(cast("KnownSections", known), overrides))
        self.files: dict[str, pulumi.Input[str]] = {FILE: config}
        if credential.ca_certificate is not None:
            self.files[CA_FILE] = credential.ca_certificate

    @property
    def checksum(self) -> pulumi.Output[str]:
        """A hash of the files, which makes new pods: programs read them only once."""
        digest = pulumi.Output.all(**self.files).apply(
            lambda files: hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
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
