"""One run of the operator's own ssh."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from commands.errors import CommandError

# Its exit status that is not the command's.
FAILED = 255


def run(
    words: Sequence[str], *, seconds: float, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ssh with these words, and `text` on standard input.

    One that does not end within `seconds`, such as at a machine whose disk hangs, has failed.

    Raises:
        CommandError: there is no ssh on this machine.
    """
    command = ["ssh", *words]
    try:
        return subprocess.run(  # noqa: S603 - the operator's own ssh
            command,
            input=text,
            capture_output=True,
            # A banner may be in any encoding.
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError:
        raise CommandError("there is no program `ssh` on the PATH: install OpenSSH") from None
    except subprocess.TimeoutExpired:
        problem = f"it let ssh in, but did not answer within {seconds:.0f} s"
        return subprocess.CompletedProcess(command, FAILED, "", problem)
