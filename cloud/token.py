"""The token of a login, which tells what the login may do and where the services are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openstack.connection import Connection


@dataclass(frozen=True, kw_only=True)
class Token:
    """What Keystone says of a login."""

    restricted: bool
    """True if it is an application credential that cannot create another one."""
    regions: frozenset[str]
    """Those in which the catalog has services."""


def token_of(cloud: Connection) -> Token:
    """Read the token that the login has brought, without a request."""
    state = cloud.session.auth and cloud.session.auth.get_auth_state()
    # Not every method logs in with a token of Keystone's.
    body = (json.loads(str(state)).get("body") or {}).get("token") or {} if state else {}
    return Token(
        restricted=body.get("application_credential", {}).get("restricted", False),
        regions=frozenset(
            endpoint["region"]
            for service in body.get("catalog", ())
            for endpoint in service["endpoints"]
            if endpoint.get("region")
        ),
    )
