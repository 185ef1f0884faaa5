"""Keystone: identity."""

from __future__ import annotations

from lab.cloud.configs.common import Sections, database, ini
from lab.cloud.layout import ETC, KEYSTONE, LOOPBACK
from lab.cloud.secrets import Secrets


def files(secrets: Secrets) -> dict[str, str]:
    """File name below the configuration folder -> text."""
    sections: Sections = {
        "DEFAULT": {"public_endpoint": KEYSTONE, "use_stderr": True},
        "database": database("keystone", secrets),
        "cache": {
            "enabled": True,
            "backend": "oslo_cache.memcache_pool",
            "memcache_servers": f"{LOOPBACK}:11211",
        },
        "token": {"provider": "fernet", "expiration": 86400},
        "fernet_tokens": {"key_repository": str(ETC / "keystone" / "fernet-keys")},
        # Its default is a folder of the machine's.
        "fernet_receipts": {"key_repository": str(ETC / "keystone" / "fernet-keys")},
        "credential": {"key_repository": str(ETC / "keystone" / "credential-keys")},
        # The fewest that the library allows: the lab's passwords are long and random.
        "identity": {"password_hash_rounds": 4},
    }
    return {"keystone/keystone.conf": ini(sections)}
