"""Makes a kubeconfig with a life of hours or days: `python -m commands.kubeconfig [--hours 8]`.

The key is made here and stays here; the cluster signs a certificate for it, on the request of the
administrator. It names a person in the audit log, and ends with the administrator's generation.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from commands import argument_types
from commands.kubernetes_api import Administrator, KubeconfigError
from commands.private_file import write_private
from commands.pulumi_cli import PulumiError, pulumi
from commands.waiting import until
from config.kubernetes_yaml import dump

# Seconds for the cluster to sign; it takes less than one.
PATIENCE = 30

_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def make(administrator: Administrator, user: str, groups: Sequence[str], hours: int) -> str:
    """Return a kubeconfig for this user, whose certificate the cluster has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = _signing_request(key, user, groups)
    with administrator.client() as client:
        certificate = _signed(client, request, hours * 3600)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    name, login = administrator.cluster_name, f"{administrator.cluster_name}-{user}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": login}}],
        "clusters": [{"name": name, "cluster": dict(administrator.cluster)}],
        "users": [
            {
                "name": login,
                "user": {
                    "client-certificate-data": certificate,
                    "client-key-data": b64encode(pem).decode(),
                },
            }
        ],
    }
    return dump(document)


def _signing_request(key: ec.EllipticCurvePrivateKey, user: str, groups: Sequence[str]) -> bytes:
    try:
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
    except ValueError as error:
        raise KubeconfigError(f"{user}, {', '.join(groups)}: {error}") from error
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def _signed(client: httpx.Client, request: bytes, seconds: int) -> str:
    """Have the request signed; returns the certificate as the API does, in base64."""
    created = _ask(
        client,
        "POST",
        _REQUESTS,
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "kubeconfig-"},
            "spec": {
                "request": b64encode(request).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "expirationSeconds": seconds,
                "usages": ["digital signature", "client auth"],
            },
        },
    )
    path = f"{_REQUESTS}/{created['metadata']['name']}"
    approved = {
        "type": "Approved",
        "status": "True",
        "reason": "Kubeconfig",
        "message": "Approved by its requester, with commands.kubeconfig.",
    }
    try:
        _ask(client, "PUT", f"{path}/approval", {**created, "status": {"conditions": [approved]}})
        certificate = until(lambda: _certificate(_ask(client, "GET", path)), PATIENCE, pause=0.2)
    finally:
        _ask(client, "DELETE", path)
    if certificate is None:
        raise KubeconfigError(
            f"the cluster has signed nothing within {PATIENCE} s: see the logs of its controller "
            "manager, `kubectl -n kube-system logs -l component=kube-controller-manager`"
        )
    return certificate


def _certificate(request: Mapping[str, Any]) -> str | None:
    for condition in request["status"].get("conditions", ()):
        if condition["type"] in ("Denied", "Failed"):
            raise KubeconfigError(f"the cluster does not sign this: {condition.get('message')}")
    certificate: str | None = request["status"].get("certificate")
    return certificate


def _ask(
    client: httpx.Client, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    try:
        answer = client.request(method, path, json=body)
    except httpx.HTTPError as error:
        raise KubeconfigError(
            f"the Kubernetes API at {client.base_url} does not answer ({error}): check that "
            "`allowedCidrs` contains your address, and that a gateway is up"
        ) from error
    if answer.is_error:
        raise KubeconfigError(_refusal(answer))
    found: dict[str, Any] = answer.json()
    return found


def _refusal(answer: httpx.Response) -> str:
    try:
        message = answer.json()["message"]
    except (ValueError, LookupError, TypeError):
        message = f"HTTP status {answer.status_code}"
    if answer.status_code not in (401, 403):
        return f"the cluster refuses the request: {message}"
    return (
        f"the cluster refuses this administrator: {message}; if the certificate or its generation "
        "is no longer valid, `pulumi up` renews the output `kubeconfig`"
    )


def _ends(kubeconfig: str) -> datetime:
    certificate = Administrator.of(kubeconfig).certificate
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def main() -> int:
    """Print or write the kubeconfig; returns the exit status."""
    arguments = _arguments()
    try:
        if arguments.output is not None:
            _require_a_file(arguments.output)
        administrator = _administrator(arguments)
        user = arguments.user or _login_name()
        groups = arguments.group or administrator.groups
        if arguments.output is not None:
            _require_no_other(arguments.output, administrator.cluster_name)
        kubeconfig = make(administrator, user, groups, arguments.hours)
        if arguments.output is None:
            sys.stdout.write(kubeconfig)
        else:
            write_private(arguments.output, kubeconfig)
    except (KubeconfigError, PulumiError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: it can be run again", file=sys.stderr)
        return 130
    print(
        f"{user} in {', '.join(groups)}, until {_ends(kubeconfig):%Y-%m-%d %H:%M} UTC",
        file=sys.stderr,
    )
    return 0


def _require_a_file(output: Path) -> None:
    """Refuse to replace what is no file, such as /dev/stdout.

    Raises:
        KubeconfigError: if it is none.
    """
    # There, a link may lead to a file: `>FILE` makes it so.
    if output.parent == Path("/dev") or (output.exists() and not output.is_file()):
        raise KubeconfigError(
            f"--output = {output}: is no regular file; name one, or leave out `--output` to print "
            "the kubeconfig"
        )


def _require_no_other(file: Path, cluster: str) -> None:
    """Refuse to replace a kubeconfig that is the way into another cluster, such as ~/.kube/config.

    Raises:
        KubeconfigError: if it is.
    """
    try:
        named = {each["name"] for each in yaml.safe_load(file.read_text())["clusters"]}
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError):
        return
    if others := named - {cluster}:
        raise KubeconfigError(
            f"{file} is the way into {', '.join(sorted(others))}, too: write another file, and "
            f"name both, KUBECONFIG={file}:OTHER"
        )


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # As in a container, whose user may be a mere number.
        raise KubeconfigError("your login has no name here: set `--user`") from None


def _administrator(arguments: argparse.Namespace) -> Administrator:
    if arguments.kubeconfig is not None:
        return Administrator.of_file(arguments.kubeconfig)
    stack = ["--stack", arguments.stack] if arguments.stack else []
    return Administrator.of(pulumi("stack", "output", "kubeconfig", "--show-secrets", *stack))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m commands.kubeconfig", description=__doc__)
    parser.add_argument(
        "--hours", type=argument_types.hours, default=8, help="hours until it expires; default: 8"
    )
    parser.add_argument("--user", help="the name in the audit log; default: your login name")
    parser.add_argument(
        "--group",
        action="append",
        help="a group of that user, instead of the administrators; may be repeated",
    )
    parser.add_argument("--output", type=Path, help="the file to write; default: print it")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--stack", help="the stack; default: the selected one")
    source.add_argument(
        "--kubeconfig", type=Path, help="the administrator's, instead of a stack's output"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
