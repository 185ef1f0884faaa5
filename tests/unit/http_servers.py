"""HTTP servers that live as long as a test."""

from __future__ import annotations

import http.server
import ipaddress
import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Silent(http.server.BaseHTTPRequestHandler):
    """Writes nothing between the tests' dots."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def served(handler: type[Silent], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server with this handler."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        server.shutdown()


def certificate(folder: Path) -> Path:
    """A file with a self-signed certificate of 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
        .not_valid_after(datetime.now(UTC) + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file = folder / f"{made.serial_number}.pem"
    file.write_bytes(
        made.public_bytes(pem) + key.private_bytes(pem, private, serialization.NoEncryption())
    )
    return file


@contextmanager
def kubernetes_api(handler: type[Silent], pem: Path) -> Iterator[str]:
    """The URL of an API server with this certificate; clients show the same one."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    tls.load_verify_locations(pem)
    tls.verify_mode = ssl.CERT_REQUIRED
    with served(handler, tls) as url:
        yield url


def kubeconfig(server: str, pem: Path) -> str:
    """A kubeconfig as the stack's output has it."""
    data = b64encode(pem.read_bytes()).decode()
    cluster = {"server": server, "certificate-authority-data": data}
    user = {"client-certificate-data": data, "client-key-data": data}
    return json.dumps(
        {
            "current-context": "demo",
            "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "admin"}}],
            "clusters": [{"name": "demo", "cluster": cluster}],
            "users": [{"name": "admin", "user": user}],
        }
    )
