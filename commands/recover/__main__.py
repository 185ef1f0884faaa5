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
from typing import TYPE_CHECKING

from openstack.exceptions import BadRequestException, ConflictException

from cloud.errors import CLOUD_ERRORS
from cloud.login import connect, login
from commands.errors import CommandError
from commands.local_backend import delete_empty_attributes, local_locks
from commands.previews import PreviewError
from commands.pulumi_cli import backend_url
from commands.question import agreed
from commands.recover import orphaned_resources
from commands.recover.orphaned_resources import OrphanedResource
from commands.recover.state import Begun, State
from commands.waiting import while_raising
from config.errors import ConfigError

if TYPE_CHECKING:
    from openstack.connection import Connection

# Seconds: a service may still be working on the last request of the run that was killed.
_SETTLE = 5
# Seconds for what cannot be deleted yet, such as a volume that is being created.
_PATIENCE = 120


def main() -> int:
    """Ask, then repair; returns 0 when the next `pulumi up` can run."""
    arguments = _arguments()
    state = State(stack=arguments.stack, config_file=arguments.config_file)
    try:
        if arguments.unattended:
            return _recover_failed(state)
        return _recover(
            state,
            yes=arguments.yes,
            all_planned=arguments.without_checkpoints,
            only_begun=arguments.only_begun,
        )
    except PreviewError as error:
        print(f"nothing was deleted, because the preview fails: {error}", file=sys.stderr)
        return 1
    except (CommandError, ConfigError, *CLOUD_ERRORS) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: it can be run again", file=sys.stderr)
        return 130


def _recover(state: State, *, yes: bool, all_planned: bool, only_begun: bool) -> int:
    name = state.name
    lock = local_locks().get(name)
    held = "" if lock is None else f" ({lock})"
    if not agreed(f"Remove the lock of {name}{held}? No other run may be at work on it.", yes=yes):
        return 1
    for path in delete_empty_attributes(backend_url()):
        print(f"deleted {path}, which was only half written")
    state.unlock()
    if lock is not None:
        print(f"unlocked {name} ({lock})")
    for begun in state.begun:
        print(f"was being created: {begun.name} ({begun.kind})")
    requested = state.begun
    if all_planned or (not requested and not only_begun and state.failed_since):
        print("looking for what the next update would create and exists already")
        requested += state.planned()
    elif not requested:
        print("nothing was being created: run `pulumi up`")
        return 0
    time.sleep(_SETTLE)
    if not _delete_orphaned(state, requested, yes=yes):
        return 1
    if state.begun:
        state.forget_begun()
    print("done: run `pulumi up`")
    return 0


def _recover_failed(state: State) -> int:
    """Delete what the update that has just failed has made and not recorded, and nothing older.

    An older copy of the state may have been restored, to which a living cluster is an orphan.
    """
    # What is being created belongs to an update that has begun since.
    if state.begun or (since := state.failed_since) is None:
        return 0
    requested = state.planned()
    time.sleep(_SETTLE)
    found = _orphaned(_connect(state), state, requested)
    new = [each for each in found if each.created is not None and each.created >= since]
    # After they were found: what they belong to would be in the state by now.
    if state.changed:
        return 0
    _delete(new)
    for each in found:
        if each not in new:
            print(f"exists, but is not in the state: {each}; `commands.recover` may delete it")
    return 0


def _delete_orphaned(state: State, requested: Sequence[Begun], *, yes: bool) -> bool:
    """Delete all of them, until no other is found; False if the user or the cloud refuses.

    A group of servers is one only when its servers are gone.
    """
    cloud, done = _connect(state), True
    told: set[str] = set()
    while found := [each for each in _orphaned(cloud, state, requested) if each.id not in told]:
        for orphan in found:
            print(f"exists, but is not in the state: {orphan}")
        if not agreed("Delete what is not in the state?", yes=yes):
            return False
        # What another run has made meanwhile would be in the state by now.
        state.refuse_changed()
        done = _delete(found) and done
        told |= {orphan.id for orphan in found}
    return done


def _delete(found: Sequence[OrphanedResource]) -> bool:
    """Delete what the cloud lets go; False if it still refuses one that nothing uses."""
    done = True
    # Without checkpoints, one may need another: what was requested last goes first.
    for orphan in reversed(found):
        print(f"deleting {orphan}")
        try:
            while_raising(BadRequestException, _PATIENCE, _SETTLE)(orphan.delete)
        except ConflictException as refusal:
            print(
                f"left, because it is in use, such as by another cluster of this name: {orphan} "
                f"({refusal.message}); if it is this cluster's, delete it by hand"
            )
        except BadRequestException as refusal:
            print(f"not deleted yet: {orphan} ({refusal.message}); run this again")
            done = False
    return done


def _connect(state: State) -> Connection:
    return connect(login(state.provider_config().get, os.environ))


def _orphaned(
    cloud: Connection, state: State, requested: Sequence[Begun]
) -> list[OrphanedResource]:
    known = state.known
    # What was being created may be planned as well.
    found = {
        orphan.id: orphan
        for begun in requested
        for orphan in orphaned_resources.find(cloud, begun.kind, begun.inputs, known[begun.kind])
    }
    return [*found.values()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m commands.recover", description=__doc__)
    parser.add_argument("--stack", help="the stack; default: the selected one")
    parser.add_argument("--config-file", type=Path, help="as for `pulumi up`")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--without-checkpoints",
        action="store_true",
        help="the killed update ran with PULUMI_SKIP_CHECKPOINTS, so the state does not say what it"
        " was creating",
    )
    kind.add_argument(
        "--only-begun",
        action="store_true",
        help="only delete what the killed update was creating, whatever the next one would create",
    )
    kind.add_argument(
        "--unattended",
        action="store_true",
        help="only delete what an update that has failed just now has left; locks stay",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
