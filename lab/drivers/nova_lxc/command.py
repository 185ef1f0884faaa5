"""Run programs of the machine; Nova's processes are cooperative, so never by `subprocess`."""

from __future__ import annotations

from oslo_concurrency import processutils

CommandError = processutils.ProcessExecutionError


def run(*words: object, ok: tuple[int, ...] = (0,)) -> str:
    """Run a command and return its standard output; CommandError when its status is not in ok."""
    output, _ = processutils.execute(*(str(word) for word in words), check_exit_code=list(ok))
    return output


def attempt(*words: object) -> bool:
    """Run a command whose failure only means that there was nothing to do."""
    try:
        run(*words)
    except CommandError:
        return False
    return True
