"""Texts, and the check for those that must match a pattern."""

import re
from typing import Annotated
from unicodedata import category

from pydantic import AfterValidator, Field


def matches(pattern: str, problem: str) -> AfterValidator:
    """Require that the whole text matches the pattern."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


def text_of_boolean(value: object) -> object:
    """The text that was meant by a boolean, which `pulumi config set --path` makes of `true`."""
    return str(value).lower() if isinstance(value, bool) else value


def _one_line(text: str) -> str:
    if any(category(each) in _BREAKS for each in text):
        raise ValueError("must not contain line breaks or other control characters")
    return text


# Control characters, line and paragraph separators.
_BREAKS = ("Cc", "Zl", "Zp")

Line = Annotated[str, AfterValidator(_one_line)]
Name = Annotated[Line, Field(min_length=1)]
Pem = Annotated[
    str,
    matches(
        r"\s*-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----\s*",
        "must be a certificate in PEM: -----BEGIN CERTIFICATE----- ...",
    ),
]
