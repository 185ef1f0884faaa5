"""A kubelet's keys and its requests for certificates."""

from __future__ import annotations

import base64
import ipaddress
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
_USAGES = {CLIENT: "client auth", SERVING: "server auth"}


@dataclass(frozen=True)
class Request:
    """A new key of a node and the CertificateSigningRequest for it."""

    node: str
    signer: str
    address: str | None = None
    """For a serving certificate."""
    _key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def document(self) -> dict[str, object]:
        """The object to create; the API server chooses its name."""
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "csr-"},
            "spec": {
                "signerName": self.signer,
                "usages": ["digital signature", _USAGES[self.signer]],
                "request": base64.b64encode(self._pem()).decode(),
            },
        }

    def write(self, certificate: bytes, file: Path) -> Path:
        """Write the key and its certificate into one file, as `ssl` reads them."""
        key = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file.touch(mode=0o600)
        file.write_bytes(key + certificate)
        return file

    def _pem(self) -> bytes:
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
                x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{self.node}"),
            ]
        )
        request = x509.CertificateSigningRequestBuilder().subject_name(subject)
        if self.address is not None:
            names = [x509.DNSName(self.node), x509.IPAddress(ipaddress.ip_address(self.address))]
            request = request.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return request.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def client_context(authority: str, certificate: Path | None = None) -> ssl.SSLContext:
    """Trust the cluster's CA (PEM), and show a certificate if there is one."""
    context = ssl.create_default_context(cadata=authority)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def server_context(certificate: Path) -> ssl.SSLContext:
    """Show this certificate to whoever asks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
