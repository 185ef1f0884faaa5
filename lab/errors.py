"""The one kind of error that the command line prints without a traceback."""

from __future__ import annotations


class LabError(Exception):
    """An error that the user can act on: the message says what is wrong and what to do."""
