"""Texts, and the check for those that must match a pattern."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field


def matches(pattern: str, problem: str) -> AfterValidator:
    """Require that the whole text matches the pattern."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


Name = Annotated[str, Field(min_length=1)]
Pem = Annotated[
    str,
    matches(
        r"\s*-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----\s*",
        "must be a certificate in PEM: -----BEGIN CERTIFICATE----- ...",
    ),
]
