"""The API of a cluster, for whoever a kubeconfig of this program names."""

from __future__ import annotations

import ssl
import tempfile
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from commands.errors import CommandError
from commands.private_file import write_private
from commands.waiting import while_raising
from config.proxy import proxy_for

# Seconds: a gateway that takes over needs a few.
PATIENCE = 30

_AUTHORITY = "certificate-authority-data"
_NO_CERTIFICATES = (
    "the current context has no server with a CA, or no user with a client certificate: use the "
    "output `kubeconfig` of the stack"
)

patiently = while_raising(httpx.HTTPError, PATIENCE, pause=2).wraps
"""Repeats requests to the API that fail."""


class KubeconfigError(CommandError):
    """The text says what is wrong and what to do."""


@dataclass(frozen=True)
class Administrator:
    """The user of a kubeconfig of this program: the cluster, the groups, certificate and key."""

    cluster_name: str
    cluster: Mapping[str, str]
    authority: str
    groups: Sequence[str]
    certificate: str
    key: str

    @staticmethod
    def of(text: str) -> Administrator:
        """Read the current context of a kubeconfig."""
        # No cause and no detail of an error: both may hold the key.
        try:
            document = yaml.safe_load(text)
            context = _named(document["contexts"], document["current-context"])["context"]
            user = _named(document["users"], context["user"])["user"]
            cluster = _named(document["clusters"], context["cluster"])["cluster"]
            certificate = b64decode(user["client-certificate-data"]).decode()
            return Administrator(
                cluster_name=context["cluster"],
                cluster={key: cluster[key] for key in ("server", _AUTHORITY)},
                authority=b64decode(cluster[_AUTHORITY]).decode(),
                groups=_groups(certificate),
                certificate=certificate,
                key=b64decode(user["client-key-data"]).decode(),
            )
        except (yaml.YAMLError, LookupError, TypeError, ValueError):
            raise KubeconfigError(_NO_CERTIFICATES) from None

    @staticmethod
    def of_file(file: Path) -> Administrator:
        """Read the current context of a kubeconfig in a file."""
        # What is not UTF-8 is no kubeconfig either.
        return Administrator.of(file.read_text(encoding="utf-8", errors="replace"))

    def client(self) -> httpx.Client:
        """A client of the API with this certificate.

        Raises:
            KubeconfigError: the CA, the certificate or the key is not one.
        """
        server = self.cluster["server"]
        try:
            tls = ssl.create_default_context(cadata=self.authority)
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "client.pem")
                write_private(file, self.certificate + self.key)
                tls.load_cert_chain(file)
        except ssl.SSLError:
            raise KubeconfigError(_NO_CERTIFICATES) from None
        return httpx.Client(
            base_url=server, verify=tls, proxy=proxy_for(server), trust_env=False, timeout=20
        )


def _groups(certificate: str) -> list[str]:
    subject = x509.load_pem_x509_certificate(certificate.encode()).subject
    return [str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def _named(entries: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return {entry["name"]: entry for entry in entries}[name]
