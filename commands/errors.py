"""The errors of commands."""


class CommandError(Exception):
    """The command cannot continue; the text says why, and what to do."""
