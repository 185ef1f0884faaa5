"""The requests to the cloud that the cluster's own programs make: the access rules of Keystone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# A service has one of these types in its own configuration; nothing tells which.
_VOLUMES = ("block-storage", "volumev3", "volume")


@dataclass(frozen=True)
class AccessRule:
    """A request that is allowed; in a path `*` is one part, and `**` any number of them."""

    service: str
    method: str
    path: str


def access_rules(*, load_balancers: bool) -> list[AccessRule]:
    """The requests of the cloud controller manager and Cinder CSI, with Octavia or without."""
    rules = [*_servers(), *_networks(), *_volumes()]
    return [*rules, *_load_balancers()] if load_balancers else rules


def _servers() -> Iterator[AccessRule]:
    # Also a list of them, `servers/detail`.
    yield AccessRule("compute", "GET", "/**/servers/*")
    yield AccessRule("compute", "GET", "/**/flavors/*")
    yield AccessRule("compute", "POST", "/**/servers/*/os-volume_attachments")
    yield AccessRule("compute", "DELETE", "/**/servers/*/os-volume_attachments/*")


def _networks() -> Iterator[AccessRule]:
    yield AccessRule("network", "GET", "/**")


def _volumes() -> Iterator[AccessRule]:
    for service in _VOLUMES:
        for kind in ("volumes", "snapshots", "backups"):
            yield AccessRule(service, "GET", f"/**/{kind}")
            yield AccessRule(service, "GET", f"/**/{kind}/*")
            yield AccessRule(service, "POST", f"/**/{kind}")
            yield AccessRule(service, "DELETE", f"/**/{kind}/*")
        # A volume becomes larger.
        yield AccessRule(service, "POST", "/**/volumes/*/action")


def _load_balancers() -> Iterator[AccessRule]:
    for method in ("GET", "POST", "PUT", "DELETE"):
        yield AccessRule("load-balancer", method, "/**")
    for kind in ("floatingips", "security-groups", "security-group-rules"):
        yield AccessRule("network", "POST", f"/**/{kind}")
        yield AccessRule("network", "DELETE", f"/**/{kind}/*")
    yield AccessRule("network", "PUT", "/**/floatingips/*")
    yield AccessRule("network", "PUT", "/**/ports/*")
    # Of ports and floating IPs.
    yield AccessRule("network", "PUT", "/**/tags/*")
    yield AccessRule("network", "DELETE", "/**/tags/*")
    # The certificates of listeners.
    yield AccessRule("key-manager", "GET", "/**")
