"""An S3 object store that checks signatures (AWS Signature Version 4): versitygw."""

from __future__ import annotations

from pathlib import Path

from lab.gobuild import build

MODULE = Path(__file__).resolve().parent / "go"


def program() -> Path:
    """Build the server if it is missing, which takes minutes; returns the program.

    Raises:
        LabError: it cannot be built.
    """
    package = "github.com/versity/versitygw/cmd/versitygw"
    return build("object-store", MODULE, {"versitygw": package}) / "versitygw"
