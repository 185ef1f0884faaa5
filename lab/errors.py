"""The one kind of error that the command line prints without a traceback."""

from __future__ import annotations


class LabError(Exception):
    """Something the user can act on: the message says what is missing and what to do."""
