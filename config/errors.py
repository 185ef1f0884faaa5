"""The faults of a configuration, each with its key, its value and what to do."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pulumi

# Longer values are cut in messages.
_LONGEST_VALUE = 80

# The password in a URL.
_PASSWORD = re.compile(r"(?<=://)([^/@:\s]*):[^/@\s]*@")

MISSING = object()
"""The value of a fault whose key is not set."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with the configuration."""

    key: str
    """The key as the user writes it: `workerPools[0].count`."""
    value: object
    """The value that is set, or `MISSING`."""
    problem: str
    """The problem, and what is allowed or what to do."""

    def is_in(self, key: str) -> bool:
        """True if the fault is in this top-level key, or somewhere below it."""
        return self.key == key or self.key.startswith((f"{key}.", f"{key}["))

    def __str__(self) -> str:
        value = "" if self.value is MISSING else f" = {shown(self.value)}"
        return _printable(f"{self.key}{value}: {self.problem}")


class ConfigError(pulumi.RunError):
    """A configuration that cannot be used; `faults` are all the reasons that were found.

    The engine shows the message of a `RunError` without a stack trace.
    """

    def __init__(
        self, faults: Sequence[Fault], about: str = "the configuration cannot be used"
    ) -> None:
        self.faults = tuple(faults)
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        lines = "\n".join(f"  {fault}" for fault in faults)
        super().__init__(f"{about}, {count}:\n{lines}")


def shown(value: object) -> str:
    """A value as messages show it: short, on one line, without passwords."""
    text = without_password(" ".join(str(value).split()))
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def without_password(text: str) -> str:
    """The text, without the passwords of its URLs."""
    return _PASSWORD.sub(r"\1:***@", text)


def _printable(text: str) -> str:
    """The text with escapes in place of control characters."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def nearest(wanted: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The known names that the wanted one was probably meant to be."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(wanted.casefold(), by_folded, n=count, cutoff=0.6)
    return [by_folded[name] for name in close]
