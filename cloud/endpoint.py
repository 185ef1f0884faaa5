"""The cloud's address, for programs in the cluster that log in with credentials of their own."""

from dataclasses import dataclass
from pathlib import Path

from cloud.login import CloudLogin, login, resolve


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The identity service and the region, without credentials."""

    auth_url: str
    region: str
    """Empty where the cloud has only one."""
    ca_certificate: str | None
    """PEM; None when a public CA signed the cloud's certificate."""
    insecure: bool
    """True if the certificate is not verified."""


def endpoint(known: CloudLogin | None = None) -> Endpoint:
    """Find it in the OpenStack provider's settings, without a request.

    Raises:
        ConfigError: when nothing is set, or a file cannot be read.
    """
    found = known or login()
    settings = resolve(found)
    ca_file = settings.config.get("cacert")
    return Endpoint(
        auth_url=settings.get_auth_args()["auth_url"],
        region=settings.get_region_name() or "",
        ca_certificate=Path(ca_file).expanduser().read_text() if ca_file else None,
        insecure=settings.get_requests_verify_args()[0] is False,
    )
