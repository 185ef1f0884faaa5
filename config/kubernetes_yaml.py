"""YAML for programs in Go, such as kubeadm and kubectl."""

import re
from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that those would read as a number or a boolean, and PyYAML as a text."""


# PyYAML knows the first without an exponent or a dot only.
_NUMBER = r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?"
_OCTAL = r"[-+]?0o[0-7_]+"
_BOOLEAN = r"[yYnN]"
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(rf"(?:{_NUMBER}|{_OCTAL}|{_BOOLEAN})$"),
    [*"-+.0123456789yYnN"],
)


def dump(*documents: Mapping[str, Any]) -> str:
    """One file of these documents."""
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=10**6)
    return text
