"""Pairs of a private key and its public key or certificate."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True)
class KeyPair:
    """A private key with its certificate or public key: PEM, or OpenSSH's formats for SSH."""

    public: pulumi.Output[str]
    private: pulumi.Output[str]


def numbered(role: str, generation: int) -> str:
    """The resource name of a generation; the first has no number: a rotation renames nothing."""
    return role if generation == 1 else f"{role}-{generation}"
