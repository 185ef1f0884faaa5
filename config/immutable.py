"""Immutable settings of a cluster, and the line of text that notes them in the cloud."""

from collections.abc import Iterator, Mapping

from config.errors import Fault


def write(values: Mapping[str, str]) -> str:
    """One line, readable by users and by `read`; values must not contain spaces."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def read(line: str) -> dict[str, str]:
    """The values that `write` wrote; other text has no keys of ours."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def faults(made_with: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[Fault]:
    """The settings that differ from those that the cluster was created with."""
    for key, value in settings.items():
        if (before := made_with.get(key, value)) != value:
            yield Fault(
                key,
                value,
                f"the cluster was created with {before}, and its machines cannot change it; "
                "set it back, or move to a new cluster. If nothing runs in this one yet: "
                "pulumi destroy, then pulumi up",
            )
