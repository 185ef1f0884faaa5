"""An S3 object store that checks signatures (AWS Signature Version 4): versitygw."""

from __future__ import annotations

from pathlib import Path

from lab.gobuild import build

MODULE = Path(__file__).resolve().parent / "go"


def program() -> Path:
    """The server; it is built where it is missing, which takes minutes.

    LabError when it cannot be built.
    """
    package = "github.com/versity/versitygw/cmd/versitygw"
    return build("object-store", MODULE, {"versitygw": package}) / "versitygw"
