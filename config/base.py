"""The base model and the value types that the other modules of `settings` share."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

# RFC 1123: what a Kubernetes node, a pool and an OpenStack host name may be.
LONGEST_LABEL = 63
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Settings(BaseModel):
    """A frozen group of settings; keys are camelCase and unknown keys are faults."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        # `pulumi config set --path a.b 5` stores a number where a text may be meant.
        coerce_numbers_to_str=True,
        str_strip_whitespace=True,
        use_attribute_docstrings=True,
    )


def _dns_label(value: str) -> str:
    if not DNS_LABEL.fullmatch(value):
        raise ValueError(
            "must be a DNS label: lower-case letters, digits and '-', "
            "starting and ending with a letter or digit, at most 63 characters"
        )
    return value


def _network(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return ipaddress.IPv4Network(value)
    except ValueError:
        pass
    try:
        exact = ipaddress.IPv4Network(value, strict=False)
    except ValueError:
        raise ValueError("must be an IPv4 network such as 10.8.0.0/22") from None
    raise ValueError(f"has host bits set; the network is {exact}")


def _address(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError("must be an IPv4 address such as 203.0.113.7") from None


def _url(value: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]+\S*", value):
        raise ValueError("must be a URL that starts with http:// or https://")
    return value


DnsLabel = Annotated[str, AfterValidator(_dns_label)]
Cidr = Annotated[ipaddress.IPv4Network, BeforeValidator(_network)]
Address = Annotated[ipaddress.IPv4Address, BeforeValidator(_address)]
Name = Annotated[str, Field(min_length=1)]
Url = Annotated[str, AfterValidator(_url)]
Values = Mapping[str, JsonValue]
