"""Keys and values of Kubernetes labels and taints."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from config.values.text import text_of_boolean

# k8s.io/apimachinery/pkg/util/validation: a qualified name, and a label value.
_PART = r"[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(_PART)
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253


def _key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name):
        raise ValueError(
            "must be `name` or `prefix/name`; a name is letters, digits, '-', '_' and '.', "
            "starts and ends with a letter or digit, and has at most 63 characters"
        )
    if slash and (not _PREFIX.fullmatch(prefix) or len(prefix) > _LONGEST_PREFIX):
        raise ValueError("the part before '/' must be a DNS name such as example.org")
    return key


def _value(value: str) -> str:
    if value and not _NAME.fullmatch(value):
        raise ValueError(
            "must be empty, or at most 63 letters, digits, '-', '_' and '.', "
            "starting and ending with a letter or digit"
        )
    return value


QualifiedName = Annotated[str, AfterValidator(_key)]
LabelValue = Annotated[str, BeforeValidator(text_of_boolean), AfterValidator(_value)]
