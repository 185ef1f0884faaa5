"""Immutable settings of a cluster as a line of text, noted where the next preview finds them."""

from collections.abc import Mapping


def write(values: Mapping[str, str]) -> str:
    """One line, readable by users and by `read`; values must not contain spaces."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def read(line: str) -> dict[str, str]:
    """The values that `write` wrote; other text has no keys of ours."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)
