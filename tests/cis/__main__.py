"""Runs kube-bench on every node; fails if one has a result that docs/cis.md does not explain.

`python -m tests.cis FOLDER [--stack NAME]`, FOLDER with the program kube-bench and its cfg/.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from commands.errors import CommandError
from commands.fleet.machines import write_files
from commands.fleet.stacks import outputs
from commands.private_file import private_folder
from commands.pulumi_cli import pulumi
from tests.cis.explained import PAGE, Verdict

BENCHMARK = "cis-1.12"
PROGRAM = "kube-bench"
# Some of its checks call it by its name.
REMOTE = (
    'd=$(mktemp -d) && trap "rm -rf $d" EXIT && cd $d && tar -xz && '
    "PATH=$d:$PATH KUBECONFIG=/etc/kubernetes/admin.conf "
    f"./{PROGRAM} --config-dir cfg --benchmark {BENCHMARK} --json"
)


def main() -> int:
    """Run it; returns 0 if every result that is not good is explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.cis", description=__doc__)
    parser.add_argument("folder", type=Path, help="a release of kube-bench: the program, and cfg/")
    parser.add_argument("--stack", help="the stack; default: the selected one")
    arguments = parser.parse_args()
    if not (arguments.folder / PROGRAM).is_file():
        parser.error(f"{arguments.folder}: there is no {PROGRAM}")
    try:
        return _run(arguments.folder, arguments.stack or pulumi("stack", "--show-name").strip())
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1


def _run(release: Path, stack: str) -> int:
    known, page = outputs(stack), PAGE.read_text()
    packed, bad = _packed(release), False
    with private_folder() as folder:
        config = write_files(folder, stack, known)
        for node in known["nodes"]:
            verdict = Verdict.of(_report(config, node["name"], packed), page)
            bad |= bool(verdict.unexplained)
            print(
                f"== {node['name']}: {verdict.passed} passed, {len(verdict.explained)} explained "
                f"in docs/cis.md, {len(verdict.unexplained)} not explained"
            )
            print("\n".join((*verdict.explained, *(f"! {each}" for each in verdict.unexplained))))
    return 1 if bad else 0


def _packed(release: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name in (PROGRAM, "cfg"):
            archive.add(release / name, name)
    return buffer.getvalue()


def _report(config: Path, node: str, packed: bytes) -> Any:  # noqa: ANN401
    done = subprocess.run(
        ["ssh", "-F", str(config), node, f"sudo sh -c '{REMOTE}'"],
        input=packed,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise CommandError(f"{node}: {PROGRAM} failed ({done.returncode}): {said}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
