"""All clusters of a backend: `python -m commands.fleet list`, `kubeconfig` and `ssh`.

Each stack of this project is a cluster, called by the stack's name. Nothing is changed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from rich.console import Console

from commands.fleet.kubeconfigs import merge
from commands.fleet.machines import MachineError, ssh
from commands.fleet.report import entries, table
from commands.fleet.stacks import StackError, names, outputs
from commands.kubernetes_api import KubeconfigError
from commands.pulumi_cli import PulumiError


def main() -> int:
    """Run the command; returns the exit status."""
    arguments = _arguments()
    try:
        match arguments.command:
            case "list":
                return _list(as_json=arguments.output == "json")
            case "kubeconfig":
                return _kubeconfig(arguments.name)
            case _:
                known = outputs(arguments.name)
                return ssh(arguments.name, known, arguments.machine, arguments.words)
    except (KubeconfigError, MachineError, PulumiError, StackError) as error:
        print(error, file=sys.stderr)
        return 1


def _list(*, as_json: bool) -> int:
    messages = Console(stderr=True)
    found = entries(names(), messages)
    if as_json:
        print(json.dumps([dataclasses.asdict(each) for each in found], indent=2))
    else:
        Console().print(table(found))
    problems = [f"{each.name}: {each.problem}" for each in found if each.problem]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _kubeconfig(name: str | None) -> int:
    found, status = {}, 0
    for each in names() if name is None else [name]:
        try:
            found[each] = outputs(each)["kubeconfig"]
        except (PulumiError, StackError) as error:
            print(f"left out: {error}", file=sys.stderr)
            status = 1
    if found:
        sys.stdout.write(merge(found))
    return status


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m commands.fleet", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="every cluster with its state")
    listing.add_argument("--output", choices=("table", "json"), default="table")
    kubeconfig = commands.add_parser("kubeconfig", help="print the administrator's kubeconfig")
    which = kubeconfig.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help="the cluster")
    which.add_argument("--all", action="store_true", help="one context for each cluster")
    login = commands.add_parser("ssh", help="log in on a machine, or run a command there")
    login.add_argument("name", help="the cluster")
    login.add_argument("machine", help="such as demo-worker-0, or demo-gateway-1")
    login.add_argument("words", nargs=argparse.REMAINDER, help="the command; a shell without it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
