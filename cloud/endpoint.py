"""Where the cloud is, for programs in the cluster that log in by themselves."""

from dataclasses import dataclass
from pathlib import Path

from cloud.login import CloudLogin, login, resolve
from config.errors import ConfigError, Fault


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The identity service and the region, without credentials."""

    auth_url: str
    region: str
    """Empty where the cloud has only one."""
    ca_certificate: str | None
    """PEM; None when a public CA signed the cloud's certificate."""


def endpoint(known: CloudLogin | None = None) -> Endpoint:
    """Find it in the OpenStack provider's own settings; asks nobody.

    Raises:
        ConfigError: when there are no such settings, or they cannot be read.
    """
    found = known or login()
    settings = resolve(found)
    auth_url = settings.get_auth_args().get("auth_url")
    if not auth_url:
        raise ConfigError([Fault(found.key, found.value, "has no auth_url")])
    ca_file = settings.config.get("cacert")
    try:
        certificate = Path(ca_file).expanduser().read_text() if ca_file else None
    except OSError as error:
        raise ConfigError([Fault("openstack:cacertFile", ca_file, str(error))]) from None
    return Endpoint(
        auth_url=auth_url,
        region=settings.get_region_name() or "",
        ca_certificate=certificate,
    )
