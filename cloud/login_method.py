"""The method of a login, which follows from what is set.

The provider's library looks at no `auth_type`, and leaves out what the method cannot use
(gophercloud, clientconfig.v3auth). openstacksdk takes a password for granted, and refuses the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOKEN, PASSWORD, CREDENTIAL = "token", "password", "v3applicationcredential"
# What clouds.yaml may call them. By other ones, such as v3oidcpassword, only openstacksdk logs in.
KNOWN = frozenset({None, "", TOKEN, PASSWORD, "v3token", "v3password", CREDENTIAL})

_USER = {"username", "user_id", "password", "user_domain_id", "user_domain_name"}
_PROJECT = {"project_id", "project_name", "project_domain_id", "project_domain_name"}
_DOMAIN = {"domain_id", "domain_name"}
_CREDENTIAL = {
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
}
_UNUSED = {
    TOKEN: _USER | _CREDENTIAL | _DOMAIN,
    PASSWORD: _CREDENTIAL,
    # It belongs to a project, and its user may be needed to find it by its name.
    CREDENTIAL: _PROJECT | _DOMAIN | {"password"},
}


def method(auth: Mapping[str, Any]) -> str:
    """The method that the provider's library chooses: a token first, then a password."""
    if auth.get("token"):
        return TOKEN
    if not auth.get("password") and any(auth.get(key) for key in _CREDENTIAL):
        return CREDENTIAL
    return PASSWORD


def used(auth: Mapping[str, Any], chosen: str) -> dict[str, Any]:
    """What this method uses of the settings."""
    return {key: value for key, value in auth.items() if key not in _UNUSED[chosen]}
