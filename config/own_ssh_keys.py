"""The checks of a user's own SSH keys, whose values never enter the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from config.errors import MISSING, Fault

NEWEST, PREVIOUS = "sshPrivateKey", "previousSshPrivateKey"
# The types that both pulumi-tls and OpenSSH know.
_TYPES = (ed25519.Ed25519PrivateKey, ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)


def faults(is_set: Mapping[str, object]) -> Iterator[Fault]:
    """The faults of the user's keys, by key of the configuration; messages never show a value."""
    texts = {key: str(is_set[key]).strip() for key in (NEWEST, PREVIOUS) if key in is_set}
    for key, text in texts.items():
        if problem := _problem(text):
            yield Fault(key, MISSING, f"{problem}: `pulumi config set --secret {key} <FILE`")
    if PREVIOUS in texts and NEWEST not in texts:
        problem = f"it needs the new key: `pulumi config set --secret {NEWEST} <FILE`"
        yield Fault(PREVIOUS, MISSING, problem)
    elif PREVIOUS in texts and texts[PREVIOUS] == texts[NEWEST]:
        problem = f"{NEWEST} is the same key: set that one to the new key, or remove this one"
        yield Fault(PREVIOUS, MISSING, problem)


def _problem(text: str) -> str | None:
    """The reason why no connection could be made with a key."""
    openssh = text.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    read = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    try:
        key = read(f"{text}\n".encode(), password=None)
    except TypeError:
        return "it has a passphrase, which the program cannot enter: set a key without one"
    except (ValueError, UnsupportedAlgorithm):
        return "this is not a private key in OpenSSH's format or PEM: set the text of the file"
    if isinstance(key, _TYPES):
        return None
    return "keys of this type are not supported: set one of type Ed25519, ECDSA or RSA"
