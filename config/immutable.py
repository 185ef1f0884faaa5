"""What a cluster cannot change while it lives, written where the next preview finds it."""

from collections.abc import Mapping


def write(values: Mapping[str, str]) -> str:
    """One line for people and for `read`; no value may have a space in it."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def read(line: str) -> dict[str, str]:
    """What `write` wrote; of any other text nothing that could be a key."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)
