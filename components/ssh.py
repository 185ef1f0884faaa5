"""Runs node scripts over SSH, and commands where Pulumi runs.

The only module that imports `pulumi_command`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import pulumi
from pulumi_command import local, remote

from components.outputs import together
from components.packing import pack, script_archive

# A machine answers only after its boot and cloud-init. The provider waits 0.1 s, then longer each
# time, up to 5 s, between two tries: 120 tries are ten minutes, or twenty if packets are dropped.
# Through a gateway, its kernel says when a try has failed (userdata/gateway/files/sysctl.conf).
BOOT_TRIES = 120
TRY_SECONDS = 5

# Longer than all waits of a script and of the one that it runs on a node: a wait that ends says
# what it waited for. Each command of a script has half an hour (userdata/lib/messages.sh).
SCRIPT_SECONDS = 4 * 60 * 60


@dataclass(frozen=True, kw_only=True)
class SshTarget:
    """A machine to log in to, and the host key that it must show."""

    address: pulumi.Input[str]
    user: str
    private_key: pulumi.Input[str]
    host_key: pulumi.Input[str]
    port: int = 22


def connection(to: SshTarget, *, via: SshTarget | None = None) -> remote.ConnectionArgs:
    """An SSH connection whose host key is checked, through a jump host if there is one."""
    return remote.ConnectionArgs(
        host=to.address,
        port=to.port,
        user=to.user,
        private_key=to.private_key,
        host_key=to.host_key,
        dial_error_limit=BOOT_TRIES,
        per_dial_timeout=TRY_SECONDS,
        proxy=None
        if via is None
        else remote.ProxyConnectionArgs(
            host=via.address,
            port=via.port,
            user=via.user,
            private_key=via.private_key,
            host_key=via.host_key,
            dial_error_limit=BOOT_TRIES,
            per_dial_timeout=TRY_SECONDS,
        ),
    )


class ScriptSource(Enum):
    """The source of a script and of those that it includes."""

    # The copy on the machine, which must be this program's.
    OWN_COPY = auto()
    # A copy of this program or of another one. The command may be older than the last copy, or the
    # machine so new that it waits for its first one.
    ANY_COPY = auto()
    # The folder on standard input.
    STDIN = auto()


def loader(
    script: str,
    *,
    lock: str,
    seconds: int,
    queue: str | None = None,
    source: ScriptSource = ScriptSource.STDIN,
) -> str:
    """The fixed line that unpacks the folder from standard input and runs one script in it.

    The folder is in memory, and gone when the script ends. The lock makes a run that follows an
    interrupted one wait for it; `seconds` bounds both. Scripts with the same `queue` run one after
    the other on a machine; one that waits ends when its connection does.
    """
    wait = (
        ""
        if queue is None
        else f"exec 8>/run/lock/openstack-kubernetes-{queue}; "
        "until flock -w 5 8; do echo waiting for another run >&2; done; "
    )
    line = (
        "set -eu; umask 077; d=$(mktemp -d /dev/shm/openstack-kubernetes.XXXXXX); "
        """trap 'rm -rf "$d"' EXIT; base64 -d | tar -xz -C "$d"; """
        f"""{_unpack(source)}cd "$d"; """
        f"exec 9>/run/lock/openstack-kubernetes-{lock}; flock -n 9 || {{ "
        "echo another run is at work on this machine: waiting for it to end >&2; "
        f"flock -w {seconds} 9 || {{ echo it did not end within {seconds} s >&2; exit 1; }}; }}; "
        f"{wait}timeout --kill-after=30 {seconds} bash ./{script} 8>&- 9>&-"
    )
    return f"sudo -n bash -c {shlex.quote(line)}"


def _archive(checksum: str) -> str:
    """The file of all scripts, in the home folder of the user who logs in."""
    return f"openstack-kubernetes-scripts-{checksum[:16]}.tar.gz"


def _unpack(source: ScriptSource) -> str:
    """The part of a loader that unpacks the copied scripts into the folder `$d`."""
    if source is ScriptSource.STDIN:
        return ""
    checksum, every = script_archive().checksum, "openstack-kubernetes-scripts-*.tar.gz"
    own = _archive(checksum)
    missing = (
        """echo "the scripts of the program are not on this machine: """
        """copy them again, with pulumi up --replace '**:CopyToRemote::**'" >&2; exit 1"""
    )
    if source is ScriptSource.OWN_COPY:
        return (
            f"""echo {checksum} {own} | sha256sum --check --status || {{ {missing}; }}; """
            # A power cut must not empty it: it is copied only once. Deletes may want an older one.
            f"""tar -xzf {own} -C "$d"; touch {own}; sync {own}; """
            f"ls -t {every} | tail -n +4 | xargs -r rm -f; "
        )
    return (
        f"t=0; until for f in {own} $(ls -t {every} 2>/dev/null); do "
        """gzip -t "$f" 2>/dev/null && tar -xzf "$f" -C "$d" && break; done; do """
        f"t=$((t + 1)); [ $t -lt 30 ] || {{ {missing}; }}; sleep 2; done; "
    )


class CopiedScripts(remote.CopyToRemote):
    """All node scripts on one machine: copied again when one has changed, and for each trigger.

    On each script's standard input they would be in the state as well, twice and encrypted. Of a
    file that is copied, the state has only the checksum.
    """

    def __init__(
        self,
        name: str,
        *,
        target: remote.ConnectionArgs,
        triggers: Sequence[pulumi.Input[str]],
        opts: pulumi.ResourceOptions,
    ) -> None:
        archive = script_archive()
        super().__init__(
            name,
            connection=target,
            source=pulumi.FileAsset(archive.path),
            remote_path=_archive(archive.checksum),
            triggers=list(triggers),
            opts=opts,
        )


class Script(remote.Command):
    """A node script on one machine: runs again when its folder changes, and for each trigger.

    `run` is the script's path in the folder and its verb. `on_delete` is the same for another
    script, which runs when the resource is deleted, and first when it is replaced; those of a
    `queue` run one after the other, and those of a `lock`, which is its name by default, wait for
    what an interrupted run has left. What `files` hold is secret: it goes through standard input
    only.
    """

    def __init__(
        self,
        name: str,
        run: str | None,
        *,
        target: remote.ConnectionArgs,
        files: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions,
        on_delete: str | None = None,
        lock: str | None = None,
        queue: str | None = None,
        triggers: Sequence[pulumi.Input[str]] = (),
        seconds: int = SCRIPT_SECONDS,
        source: ScriptSource = ScriptSource.OWN_COPY,
    ) -> None:
        packed: pulumi.Output[str] = pulumi.Output.secret(together(files).apply(pack))
        lock = lock or name
        super().__init__(
            name,
            connection=target,
            create=loader(run, lock=lock, seconds=seconds, source=source) if run else None,
            # The state keeps it until the next update.
            delete=loader(
                on_delete, lock=lock, seconds=seconds, queue=queue, source=ScriptSource.ANY_COPY
            )
            if on_delete
            else None,
            stdin=packed,
            triggers=list(triggers) or None,
            logging=remote.Logging.NONE,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    delete_before_replace=True, additional_secret_outputs=["stdout", "stderr"]
                ),
            ),
        )


class CommandOnCreate(local.Command):
    """A command of `commands/` that runs where Pulumi runs, once for each set of triggers.

    `run` are its module and arguments. `variables` come on top of Pulumi's own environment; they
    are secret, and a change of them alone runs nothing.
    """

    def __init__(
        self,
        name: str,
        run: str,
        variables: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions,
        *,
        triggers: Sequence[pulumi.Input[str]],
    ) -> None:
        secret: pulumi.Output[dict[str, str]] = pulumi.Output.secret(together(variables))
        super().__init__(
            name,
            create=f".venv/bin/python -m commands.{run}",
            environment=secret,
            triggers=list(triggers),
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(ignore_changes=["create", "environment"]),
            ),
        )


class CommandOnDelete(local.Command):
    """A command of `commands/` that runs where Pulumi runs, and only on delete.

    `run` are its module and arguments. `variables` come on top of Pulumi's own environment; they
    are secret. A change of `triggers` is a delete.
    """

    def __init__(
        self,
        name: str,
        run: pulumi.Input[str],
        variables: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions,
        *,
        triggers: Sequence[pulumi.Input[str]] = (),
    ) -> None:
        secret: pulumi.Output[dict[str, str]] = pulumi.Output.secret(together(variables))
        super().__init__(
            name,
            # In the folder of Pulumi.yaml, where the engine runs it.
            delete=pulumi.Output.concat(".venv/bin/python -m commands.", run),
            environment=secret,
            triggers=list(triggers) or None,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(delete_before_replace=True)
            ),
        )
