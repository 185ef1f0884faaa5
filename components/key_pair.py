"""A public thing with its private key."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True)
class KeyPair:
    """A certificate (or a public key) with its private key, both PEM."""

    public: pulumi.Output[str]
    private: pulumi.Output[str]


def numbered(role: str, generation: int) -> str:
    """The name of a generation: the first one is as it was before anything rotated."""
    return role if generation == 1 else f"{role}-{generation}"
