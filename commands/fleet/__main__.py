"""All clusters of a backend: `python -m commands.fleet list`, and other verbs.

Each stack of this project is a cluster, called by the stack's name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from commands.errors import CommandError
from commands.fleet import add, logins, upgrade
from commands.fleet.argocd import ArgoCd
from commands.fleet.command_line import parse
from commands.fleet.federation import Federation
from commands.fleet.kubeconfigs import merge
from commands.fleet.logins import Logins
from commands.fleet.machines import ssh, write_files
from commands.fleet.operated import Operated
from commands.fleet.report import entries, table
from commands.fleet.stack_objects import NAMESPACE
from commands.fleet.stacks import names, outputs
from commands.fleet.threads import attempted, of_each
from commands.pulumi_cli import backend_place, backend_url, project
from commands.question import agreed
from config.errors import ConfigError
from config.kubernetes_yaml import dump

# No terminal: lines are not cut at 80 characters there, and wrapped by it anywhere.
_WIDEST = 1000
_ERRORS = (CommandError, ConfigError, OSError)


def main() -> int:
    """Run the command; returns the exit status."""
    arguments = parse(__doc__)
    try:
        match arguments.command:
            case "list":
                return _list(as_json=arguments.output == "json", drift=arguments.drift)
            case "kubeconfig":
                return _kubeconfig(arguments.name)
            case "upgrade":
                return _upgrade(arguments)
            case "argocd":
                return _argocd(arguments)
            case "monitoring":
                return _keep_logins(Federation(), arguments)
            case "add":
                return _add(arguments)
            case "ssh-config":
                print(write_files(Path.cwd(), arguments.name, outputs(arguments.name)))
                return 0
            case _:
                known = outputs(arguments.name)
                return ssh(arguments.name, known, arguments.machine, arguments.words)
    except _ERRORS as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: run the same command again", file=sys.stderr)
        return 130


def _list(*, as_json: bool, drift: bool) -> int:
    found = entries(_some(names()), Console(stderr=True), drift=drift)
    if as_json:
        print(json.dumps([each.as_json() for each in found], indent=2))
    else:
        Console(width=_WIDEST).print(table(found, drift=drift))
    problems = [f"{each.name}: {problem}" for each in found for problem in each.problems]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _kubeconfig(name: str | None) -> int:
    found, status = {}, 0
    stacks = _some(names()) if name is None else [name]
    told = of_each(stacks, attempted(outputs), Console(stderr=True))
    for each, known in zip(stacks, told, strict=True):
        if isinstance(known, CommandError):
            print(known if name else f"left out: {known}", file=sys.stderr)
            status = 1
        else:
            found[each] = known["kubeconfig"]
    if found:
        sys.stdout.write(merge(found))
    return status


def _some(stacks: Sequence[str]) -> Sequence[str]:
    """These, unless there are none, as in the wrong backend."""
    if not stacks:
        raise CommandError(f"{backend_url()} has no cluster of this project: is it the right one?")
    return stacks


def _upgrade(arguments: argparse.Namespace) -> int:
    console, version = Console(), arguments.to
    if arguments.kubeconfig and not arguments.admin:
        raise CommandError("--kubeconfig is one of the admin cluster: name it with `--admin`")
    if arguments.admin:
        _require_admin(arguments, names())
    operated = Operated(arguments.admin, arguments.kubeconfig)
    wanted = arguments.names or _some(names())
    stacks = upgrade.remaining(
        wanted, version, arguments.check, operated, console, named=bool(arguments.names)
    )
    if not stacks:
        return 0
    upgrade.preview(stacks, version, console)
    if not agreed(f"Upgrade {', '.join(stacks)} to {version}?", yes=arguments.yes):
        print("nothing was changed", file=sys.stderr)
        return 1
    upgrade.run(stacks, version, arguments.wave, arguments.check, operated, console)
    return 0


def _argocd(arguments: argparse.Namespace) -> int:
    program = ArgoCd(arguments.namespace, arguments.cluster_role, arguments.only_in)
    # Argo CD knows its own cluster by itself, as `in-cluster`.
    return _keep_logins(program, arguments, left_out=[arguments.admin])


def _add(arguments: argparse.Namespace) -> int:
    cluster = add.read(arguments.name, arguments.image, arguments.resync)
    if arguments.print:
        print(dump(cluster.stack_object()), end="")
        print(f"Secret {cluster.name}: {', '.join(cluster.secret()['data'])}", file=sys.stderr)
        return 0
    add.apply(cluster, arguments.admin, arguments.kubeconfig)
    see = f"kubectl -n {NAMESPACE} get stack {cluster.name}"
    print(f"{arguments.name}: the operator of {arguments.admin} runs it, `{see}`")
    return 0


def _keep_logins(
    program: logins.Program, arguments: argparse.Namespace, left_out: Sequence[str] = ()
) -> int:
    # In the wrong backend all clusters would be gone.
    present = _some(names()) if arguments.remove_gone else names()
    _require_admin(arguments, present)
    known = {*present, arguments.admin}
    stacks = arguments.names or sorted(known - {*left_out})
    origin = f"{project()} in {backend_place()}"
    kept = Logins(program, arguments.admin, origin, arguments.hours, arguments.kubeconfig)
    # Whoever names a cluster means it, unless the login is to go.
    needed = bool(arguments.names) and not arguments.remove_gone
    status = 0
    for line in logins.keep(kept, stacks, known, remove_gone=arguments.remove_gone, needed=needed):
        print(line.text, file=sys.stderr if line.failed else sys.stdout)
        status = 1 if line.failed else status
    return status


def _require_admin(arguments: argparse.Namespace, present: Sequence[str]) -> None:
    # With a kubeconfig its state may be in another backend than that of the others.
    if not arguments.kubeconfig and arguments.admin not in present:
        raise CommandError(
            f"there is no admin cluster {arguments.admin}: name it with `--admin`, or a kubeconfig"
            " of it with `--kubeconfig`"
        )


if __name__ == "__main__":
    sys.exit(main())
