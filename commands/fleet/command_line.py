"""The command line of `python -m commands.fleet`."""

from __future__ import annotations

import argparse
import shlex
import shutil
from pathlib import Path

from commands import argument_types
from commands.fleet import argocd

# The operator takes anything shorter for this.
_SHORTEST_RESYNC = 60


def parse(description: str | None) -> argparse.Namespace:
    """Parse the command line; a wrong one ends the program with its usage."""
    parser = argparse.ArgumentParser(prog="python -m commands.fleet", description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="list every cluster with its state")
    listing.add_argument("--output", choices=("table", "json"), default="table")
    listing.add_argument(
        "--drift", action="store_true", help="compare each with its configuration and the cloud"
    )
    kubeconfig = commands.add_parser("kubeconfig", help="print the administrator's kubeconfig")
    which = kubeconfig.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help="the cluster")
    which.add_argument("--all", action="store_true", help="all clusters, a context for each")
    login = commands.add_parser("ssh", help="log in to a machine, or run a command there")
    login.add_argument("name", help="the cluster")
    login.add_argument("machine", help="such as demo-worker-0, or demo-gateway-1")
    login.add_argument("words", nargs=argparse.REMAINDER, help="the command; default: a shell")
    config = commands.add_parser(
        "ssh-config", help="write ssh_config, ssh_key and known_hosts into this folder"
    )
    config.add_argument("name", help="the cluster")
    waves = commands.add_parser("upgrade", help="upgrade Kubernetes, one wave after the other")
    waves.add_argument("names", nargs="*", metavar="name", help="clusters; default: all")
    waves.add_argument("--to", required=True, metavar="VERSION", help="such as v1.36.4")
    waves.add_argument("--wave", type=_number, default=1, help="clusters at a time; default: 1")
    waves.add_argument(
        "--check",
        type=_command,
        metavar="COMMAND",
        help="a command that must succeed with each upgraded cluster's KUBECONFIG",
    )
    waves.add_argument(
        "--admin", help="the admin cluster, if its operator runs some; default: it runs none"
    )
    _add_kubeconfig_argument(waves)
    waves.add_argument("--yes", action="store_true", help="do not ask")
    adding = commands.add_parser("add", help="let the operator of the admin cluster run a cluster")
    adding.add_argument("name", help="its stack, whose Pulumi.<stack>.yaml is in this folder")
    adding.add_argument("--image", required=True, help="image of the program (Containerfile)")
    _add_admin_arguments(adding)
    adding.add_argument(
        "--resync", type=_seconds, default=300, help="seconds between repairs; default: 300"
    )
    adding.add_argument(
        "--print", action="store_true", help="print the Stack, without secrets; change nothing"
    )
    deployer = commands.add_parser("argocd", help="keep Argo CD's cluster Secrets current")
    _add_login_arguments(deployer)
    deployer.add_argument(
        "--namespace", default="argocd", help="Argo CD's namespace; default: argocd"
    )
    deployer.add_argument(
        "--cluster-role", default=argocd.ROLE, help=f"its rights; default: {argocd.ROLE}"
    )
    deployer.add_argument(
        "--only-in",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="these rights in this namespace only; may be repeated",
    )
    watcher = commands.add_parser("monitoring", help="let the admin cluster watch all clusters")
    _add_login_arguments(watcher)
    return parser.parse_args()


def _add_admin_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--admin", default="admin", help="the admin cluster; default: admin")
    _add_kubeconfig_argument(parser)


def _add_kubeconfig_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig", type=Path, help="a kubeconfig of it; default: the output of its stack"
    )


def _add_login_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="name", help="clusters; default: all")
    _add_admin_arguments(parser)
    parser.add_argument(
        "--hours", type=argument_types.hours, default=24, help="life of the tokens; default: 24"
    )
    parser.add_argument(
        "--remove-gone", action="store_true", help="remove the Secrets of clusters that are gone"
    )


def _number(text: str) -> int:
    if not text.isdecimal() or (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be a number, 1 or more")
    return number


def _seconds(text: str) -> int:
    if not text.isdecimal() or 0 < int(text) < _SHORTEST_RESYNC:
        raise argparse.ArgumentTypeError(f"must be {_SHORTEST_RESYNC} or more, or 0 for never")
    return int(text)


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}; quote it as in a shell") from None
    program = words[0] if words else ""
    if shutil.which(program) is None:
        raise argparse.ArgumentTypeError(
            f"there is no program '{program}' on this machine; name one, with its arguments"
        )
    return words
