"""The keys of the object store: its CA, its certificate, and a secret key for each user."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_random as random
import pulumi_tls as tls

from addons.installer import Installer

# The user who may do everything.
ROOT = "root"
# Other clusters hold the CA in their configuration, so neither may end before they do.
_HOURS = 10 * 365 * 24
_SECRET_KEY_BYTES = 20


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The server's certificate and its key, PEM."""

    public: pulumi.Output[str]
    private: pulumi.Output[str]


def certificates(
    installer: Installer, *, addresses: Sequence[pulumi.Input[str]], names: Sequence[str]
) -> tuple[pulumi.Output[str], Certificate]:
    """Create a CA and a certificate for these addresses and names; returns the CA's first."""
    name = f"{installer.name}-object-store"
    opts = pulumi.ResourceOptions(parent=installer.parent)
    ca_key = _key(f"{name}-ca", opts)
    ca = tls.SelfSignedCert(
        f"{name}-ca",
        private_key_pem=ca_key.private_key_pem,
        is_ca_certificate=True,
        set_subject_key_id=True,
        subject=tls.SelfSignedCertSubjectArgs(common_name="object-store-ca"),
        validity_period_hours=_HOURS,
        allowed_uses=["digital_signature", "cert_signing"],
        opts=opts,
    )
    key = _key(name, opts)
    request = tls.CertRequest(
        name,
        private_key_pem=key.private_key_pem,
        subject=tls.CertRequestSubjectArgs(common_name="object-store"),
        ip_addresses=list(addresses),
        dns_names=list(names),
        opts=opts,
    )
    certificate = tls.LocallySignedCert(
        name,
        ca_private_key_pem=ca_key.private_key_pem,
        ca_cert_pem=ca.cert_pem,
        cert_request_pem=request.cert_request_pem,
        validity_period_hours=_HOURS,
        allowed_uses=["digital_signature", "server_auth"],
        opts=opts,
    )
    return ca.cert_pem, Certificate(public=certificate.cert_pem, private=key.private_key_pem)


def _key(name: str, opts: pulumi.ResourceOptions) -> tls.PrivateKey:
    return tls.PrivateKey(name, algorithm="ECDSA", ecdsa_curve="P256", opts=opts)


def secret_keys(installer: Installer, users: Sequence[str]) -> Mapping[str, pulumi.Output[str]]:
    """Create a secret key for each user."""
    return {
        user: pulumi.Output.secret(
            random.RandomBytes(
                f"{installer.name}-object-store-{user}",
                length=_SECRET_KEY_BYTES,
                opts=pulumi.ResourceOptions(parent=installer.parent),
            ).hex
        )
        for user in users
    }
