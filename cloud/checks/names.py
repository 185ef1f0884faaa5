"""Names that the cloud does not have, or has more than once, and those that were probably meant."""

from collections.abc import Collection, Iterator

from config.errors import Fault, nearest

_NAMES_SHOWN = 8
_NEAREST_SHOWN = 3


def unknown(key: str, wanted: str, known: Collection[str] | None, what: str) -> Iterator[Fault]:
    """The fault of an unknown name; there is none if the cloud did not answer (None)."""
    if known is not None and wanted not in known:
        yield Fault(key, wanted, f"no such {what}; {instead(wanted, known, what)}")


def instead(wanted: str, known: Collection[str], what: str) -> str:
    """The names that may have been meant, or those that exist."""
    if not known:
        return f"this project sees no {what}"
    if near := nearest(wanted, known, _NEAREST_SHOWN):
        return f"did you mean {' or '.join(near)}?"
    return f"this project sees {some(known)}"


def some(names: Collection[str]) -> str:
    """The first few names, and how many more there are."""
    first = sorted(names)[:_NAMES_SHOWN]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def ambiguous(key: str, name: str, count: int, what: str) -> Iterator[Fault]:
    """A fault if more than one thing has the name that should tell it apart."""
    if count > 1:
        yield Fault(key, name, f"is the name of {count} {what}; rename all but one")
