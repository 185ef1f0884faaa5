"""SSH keys that are made when a test runs: none is in the repository."""

from __future__ import annotations

import base64
import os

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_FIRST = "-----BEGIN OPENSSH PRIVATE KEY-----\n"


def new_key() -> Ed25519PrivateKey:
    """A key, which `text` writes as a user has it in a file."""
    return Ed25519PrivateKey.generate()


def text(
    key: PrivateKeyTypes,
    form: serialization.PrivateFormat = serialization.PrivateFormat.OpenSSH,
    encryption: serialization.KeySerializationEncryption | None = None,
) -> str:
    """The file of a key."""
    encryption = encryption or serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


def with_passphrase() -> str:
    """The file of a key in OpenSSH's format that nothing can decrypt: its end is noise."""
    how = [b"aes256-ctr", b"bcrypt", _string(os.urandom(16)) + (16).to_bytes(4, "big")]
    public = base64.b64decode(public_of(text(new_key())).split()[1])
    parts = [*map(_string, how), (1).to_bytes(4, "big"), _string(public), _string(os.urandom(160))]
    content = base64.encodebytes(b"openssh-key-v1\0" + b"".join(parts)).decode()
    return f"{_FIRST}{content}-----END OPENSSH PRIVATE KEY-----\n"


def _string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def public_of(private: str) -> str:
    """The public key, OpenSSH's format, of a key's file."""
    openssh = private.startswith(_FIRST)
    read = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    public = read(private.encode(), password=None).public_key()
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return public.public_bytes(*form).decode()
