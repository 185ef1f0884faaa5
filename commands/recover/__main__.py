"""Lets `pulumi up` continue after one was killed, or failed at OpenStack.

`python -m commands.recover [--stack NAME]`
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cloud.errors import CLOUD_ERRORS
from cloud.login import connect, login
from commands.local_backend import delete_empty_attributes
from commands.previews import PreviewError
from commands.pulumi_cli import PulumiError
from commands.question import agreed
from commands.recover import orphaned_resources
from commands.recover.orphaned_resources import OrphanedResource
from commands.recover.state import Begun, State
from config.errors import ConfigError

# Seconds: a service may still be working on the last request of the run that was killed.
_SETTLE = 5


def main() -> int:
    """Ask, then repair; returns 0 when the next `pulumi up` can run."""
    arguments = _arguments()
    try:
        return _recover(
            State(stack=arguments.stack, config_file=arguments.config_file), yes=arguments.yes
        )
    except PreviewError as error:
        print(f"nothing was deleted, because the preview fails: {error}", file=sys.stderr)
        return 1
    except (PulumiError, ConfigError, *CLOUD_ERRORS) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: it can be run again", file=sys.stderr)
        return 130


def _recover(state: State, *, yes: bool) -> int:
    unlock = f"Remove the lock of {state.name}? No other run may be at work on it."
    if not agreed(unlock, yes=yes):
        return 1
    for path in delete_empty_attributes(state.backend_url()):
        print(f"deleted {path}, which was only half written")
    state.unlock()
    for begun in state.begun:
        print(f"was being created: {begun.name} ({begun.kind})")
    if state.begun:
        time.sleep(_SETTLE)
        requested = state.begun
    elif state.has_failed:
        print(
            "the last update failed: looking for what the next one would create and exists already"
        )
        requested = state.planned()
    else:
        print("nothing was being created: run `pulumi up`")
        return 0
    found = _orphaned(state, requested)
    for orphan in found:
        print(f"exists, but is not in the state: {orphan}")
    if found and not agreed("Delete what is not in the state?", yes=yes):
        return 1
    for orphan in found:
        print(f"deleting {orphan}")
        orphan.delete()
    if state.begun:
        state.forget_begun()
    print("done: run `pulumi up`")
    return 0


def _orphaned(state: State, requested: Sequence[Begun]) -> list[OrphanedResource]:
    cloud = connect(login(state.provider_config().get, os.environ))
    known = state.known
    return [
        orphan
        for begun in requested
        for orphan in orphaned_resources.find(cloud, begun.kind, begun.inputs, known[begun.kind])
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m commands.recover", description=__doc__)
    parser.add_argument("--stack", help="the stack; default: the selected one")
    parser.add_argument("--config-file", type=Path, help="as for `pulumi up`")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
