"""Addresses, networks, host names and URLs."""

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from config.values.text import Line, matches

# RFC 1123: the length of a host name's part, and so of the name of a server, a node or a pool.
LONGEST_LABEL = 63
_LABEL = rf"[a-z0-9]([-a-z0-9]{{0,{LONGEST_LABEL - 2}}}[a-z0-9])?"


def _network(value: object) -> object:
    if isinstance(value, ipaddress.IPv4Network):
        return value
    problem = "must be an IPv4 network such as 10.8.0.0/22"
    # `ipaddress` would take a number for the address itself.
    if not isinstance(value, str):
        raise ValueError(problem)
    try:
        exact = ipaddress.IPv4Network(value, strict=False)
    except ValueError:
        raise ValueError(problem) from None
    try:
        return ipaddress.IPv4Network(value)
    except ValueError:
        raise ValueError(f"has host bits set; the network is {exact}") from None


def _address(value: object) -> object:
    if isinstance(value, ipaddress.IPv4Address):
        return value
    problem = "must be an IPv4 address such as 203.0.113.7"
    if not isinstance(value, str):
        raise ValueError(problem)
    try:
        return ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError(problem) from None


def _separated(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


# The answer to a question of `pulumi new` is always one text.
COMMAS = BeforeValidator(_separated)
"""Takes a text with commas for a list, too."""

Cidr = Annotated[ipaddress.IPv4Network, BeforeValidator(_network)]
Address = Annotated[ipaddress.IPv4Address, BeforeValidator(_address)]
DnsLabel = Annotated[
    str,
    matches(
        _LABEL,
        "must be a DNS label: lower-case letters, digits and '-', "
        f"starting and ending with a letter or digit, at most {LONGEST_LABEL} characters",
    ),
]
_is_dns_name = matches(
    rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*",
    "must be a DNS name such as example.org, in lower case",
)
DnsName = Annotated[str, _is_dns_name]


def _without_dot(zone: object) -> object:
    return zone.rstrip(".") if isinstance(zone, str) else zone


# Designate's names of zones end with a dot, and its clients look for exactly that name.
DnsZone = Annotated[
    str, BeforeValidator(_without_dot), _is_dns_name, AfterValidator(lambda zone: f"{zone}.")
]
Host = Annotated[
    str,
    matches(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?", "must be a host name or an address"),
]
Url = Annotated[
    Line,
    matches(r"https?://[^/\s]+\S*", "must be a URL that starts with http:// or https://"),
]
# Machines log these, and keep them where every user of theirs can read them.
MirrorUrl = Annotated[
    Url, matches(r"[^@]+//[^@/]+(/.*)?", "must not contain a user name or a password")
]
HttpsUrl = Annotated[
    Line,
    matches(
        r"https://[^/\s@?#]+(/[^\s?#]*)?",
        "must be a URL that starts with https://, without a user name, `?` and `#`",
    ),
]
