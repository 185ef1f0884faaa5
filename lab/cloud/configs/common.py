"""Sections that the services' files have in common."""

from __future__ import annotations

from collections.abc import Mapping

from lab.cloud.layout import KEYSTONE, LOOPBACK, REGION, VENV_BIN
from lab.cloud.secrets import Secrets
from lab.paths import STATE

# A list is an option that occurs several times.
Value = str | int | float | bool | list[str]
Sections = Mapping[str, Mapping[str, Value]]


def ini(sections: Sections) -> str:
    """The text of an oslo.config file."""
    lines: list[str] = ["# Written by the lab at every start: changes here are lost."]
    for section, values in sections.items():
        lines.append(f"\n[{section}]")
        for key, value in values.items():
            lines += [f"{key} = {one}" for one in (value if isinstance(value, list) else [value])]
    return "\n".join(lines) + "\n"


def database(name: str, secrets: Secrets) -> dict[str, Value]:
    """A [database] section."""
    return {
        "connection": f"mysql+pymysql://lab:{secrets.database}@{LOOPBACK}/{name}?charset=utf8mb4",
        # Each process has its own pool: few connections that are kept.
        "max_pool_size": 5,
        "max_overflow": 30,
    }


def transport_url(secrets: Secrets) -> str:
    """URL of RabbitMQ."""
    return f"rabbit://lab:{secrets.messages}@{LOOPBACK}:5672/"


def credentials(user: str, secrets: Secrets) -> dict[str, Value]:
    """Options with which a service logs in to Keystone."""
    return {
        "auth_type": "password",
        "auth_url": f"{KEYSTONE}/v3",
        "username": user,
        "password": secrets.service,
        "project_name": "service",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "region_name": REGION,
    }


# The types that a credential's access rules name; a service without one refuses such a credential.
SERVICE_TYPES = {
    "cinder": "block-storage",
    "glance": "image",
    "neutron": "network",
    "nova": "compute",
    "placement": "placement",
}


def authtoken(user: str, secrets: Secrets) -> dict[str, Value]:
    """A [keystone_authtoken] section."""
    return {
        **credentials(user, secrets),
        "service_type": SERVICE_TYPES[user],
        "www_authenticate_uri": f"{KEYSTONE}/v3",
        "memcached_servers": f"{LOOPBACK}:11211",
        "service_token_roles": "service",
        "service_token_roles_required": True,
    }


def service_user(user: str, secrets: Secrets) -> dict[str, Value]:
    """A [service_user] section: long jobs continue after the user's token has expired."""
    return {**credentials(user, secrets), "send_service_user_token": True}


def locks(service: str) -> dict[str, Value]:
    """An [oslo_concurrency] section."""
    return {"lock_path": str(STATE / service / "locks")}


def privsep(configuration: str) -> dict[str, Value]:
    """A section for a privilege-separated helper: everything is root already, so no sudo."""
    helper = f"{VENV_BIN / 'privsep-helper'} --config-file {configuration}"
    return {"helper_command": helper}


# On two cores that start a cluster, a service may be silent for a minute without being down.
PATIENT: dict[str, Value] = {"rpc_response_timeout": 240}
SERVICE_DOWN_TIME = 240

# One process talks to RabbitMQ for many green threads; heartbeats in them are enough.
RABBIT: dict[str, Value] = {"heartbeat_in_pthread": False, "rabbit_qos_prefetch_count": 32}
