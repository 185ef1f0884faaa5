"""The command line: `python -m lab COMMAND`. `python -m lab --help` lists the commands."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys

from lab.errors import LabError

# One module for each command, imported when it is called: `lab toolchain` must work without the
# packages that only the cloud needs. Each module has `configure(parser)` and
# `run(arguments) -> int`; the first line of its docstring is the help text.
COMMANDS = {
    "up": "lab.up",
    "down": "lab.down",
    "toolchain": "lab.toolchain",
    "image": "lab.image",
    "cloud": "lab.cloud",
    "status": "lab.status",
    "run": "lab.run",
    "shell": "lab.shell",
    "expose": "lab.expose",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a LabError becomes one line on standard error and exit status 1."""
    parser = argparse.ArgumentParser(
        prog="lab", description="Run a real OpenStack on this machine."
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    words = sys.argv[1:] if arguments is None else arguments
    called = {word: COMMANDS[word] for word in words[:1] if word in COMMANDS}
    for name, path in (called or COMMANDS).items():
        module = importlib.import_module(path)
        text = (module.__doc__ or "").strip().splitlines()[0]
        command = subparsers.add_parser(name, help=text, description=text)
        module.configure(command)
        command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    # As Ctrl-C: what a command has begun, such as a stopped database, is put right before it ends.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return int(parsed.run(parsed))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; run the same command again to continue", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
