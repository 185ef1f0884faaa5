"""Records the quick start on the lab: real commands, real output, drawn as `docs/quick-start.svg`.

Run it as root while the lab's cloud is up (`make lab-cloud`): `.venv/bin/python -m
docs.record_quick_start`. It creates a small cluster and destroys it afterwards. It needs `npx`.
"""

import codecs
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/quick-start.svg"
RENDERER = "svg-term-cli@2.1.1"
COLUMNS, ROWS = 100, 28

# Seconds of the recording.
_WORD = 0.12
_PAUSE = 1.0
_LAST_PAUSE = 6.0
# Output within this time is one picture: each costs kilobytes.
_FRAME = 0.2

Event = tuple[float, str]


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A command as it is typed; output that took longer is sped up to `at_most` seconds."""

    command: str
    at_most: float = 2.0


# `{...}` are the lab's names.
COMMANDS = (
    Typed(command="pulumi stack init demo"),
    Typed(command="pulumi config set openstack:cloud {cloud}"),
    Typed(command="pulumi config set image {image}"),
    Typed(command="pulumi config set flavor {flavor}"),
    Typed(command="pulumi config set externalNetwork {network}"),
    Typed(command="pulumi config set --path 'allowedCidrs[0]' {cidr}"),
    Typed(command="pulumi config set workerCount 2"),
    Typed(command="pulumi preview", at_most=5),
    Typed(command="pulumi up --yes --skip-preview", at_most=15),
    Typed(command="(umask 077 && pulumi stack output kubeconfig --show-secrets >kubeconfig)"),
    Typed(command="kubectl --kubeconfig kubeconfig get nodes"),
)


class Recording:
    """An asciicast (version 2) that grows by one command after the other."""

    def __init__(self, start: Callable[[str], Sequence[str]], environment: Mapping[str, str]):
        """`start` gives the command line that runs a typed command."""
        self._start = start
        # The recording's terminal has a size of its own.
        size = ("COLUMNS", "LINES")
        self._environment = {
            **{key: value for key, value in environment.items() if key not in size},
            "TERM": "xterm-256color",
        }
        self._now = 0.0
        self.events: list[Event] = []

    def run(self, typed: Typed) -> None:
        """Type a command, run it in a terminal and keep what it prints.

        Raises:
            RuntimeError: it failed; nothing that failed is worth a picture.
        """
        self._print("\x1b[1;32m$\x1b[0m ", after=0)
        for word in typed.command.split(" "):
            self._print(f"{word} ", after=_WORD)
        self._print("\r\n", after=_WORD)
        events, took, status = _in_a_terminal(self._start(typed.command), self._environment)
        if status != 0:
            said = "".join(text for _, text in events)
            raise RuntimeError(f"`{typed.command}` ended with {status}:\n{said}")
        speed = min(1.0, typed.at_most / took)
        began = self._now
        for moment, text in _frames([(moment * speed, text) for moment, text in events]):
            self._now = began + moment
            self._print(text, after=0)
        self._now = began + took * speed
        if speed < 1:
            # What the picture leaves out is said.
            self._print(f"\x1b[2m# took {took:.0f} s\x1b[0m\r\n", after=0)
        self._now += _PAUSE

    def write(self, file: Path) -> None:
        """Write the asciicast."""
        last = (self._now + _LAST_PAUSE, "\x1b[1;32m$\x1b[0m ")
        lines: list[Any] = [{"version": 2, "width": COLUMNS, "height": ROWS}]
        lines += [[round(moment, 3), "o", text] for moment, text in [*self.events, last]]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def _print(self, text: str, *, after: float) -> None:
        self._now += after
        self.events.append((self._now, text))


def _in_a_terminal(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[Event], float, int]:
    """Run a command; return its output with times, its duration in seconds and its exit status."""
    terminal, its_side = os.openpty()
    ioctl(its_side, TIOCSWINSZ, pack("HHHH", ROWS, COLUMNS, 0, 0))
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - that is the task
        command, stdin=its_side, stdout=its_side, stderr=its_side, env=environment
    ) as process:
        os.close(its_side)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        events: list[Event] = []
        # Linux says that the other side is closed by an error.
        with suppress(OSError):
            while data := os.read(terminal, 65536):
                events.append((time.monotonic() - began, decoder.decode(data)))
        os.close(terminal)
    return events, time.monotonic() - began, process.returncode


def _frames(events: Sequence[Event]) -> list[Event]:
    """The events with those that follow each other closely made one."""
    frames: list[Event] = []
    for moment, text in events:
        if frames and moment - frames[-1][0] < _FRAME:
            frames[-1] = (frames[-1][0], frames[-1][1] + text)
        else:
            frames.append((moment, text))
    return frames


def render(cast: Path, picture: Path) -> None:
    """Draw the asciicast as an animated SVG."""
    subprocess.run(  # noqa: S603 - no input from outside
        [
            *("npx", "--yes", RENDERER, "--in", str(cast), "--out", str(picture)),
            *("--window", "--no-cursor", "--width", str(COLUMNS), "--height", str(ROWS)),
        ],
        check=True,
    )


def main() -> None:
    """Record on the lab, destroy the cluster, draw."""
    from lab import clients, image, settings, toolchain
    from lab.cloud import inside, namespace
    from lab.cloud.layout import CLOUD
    from lab.paths import STATE, ensure

    toolchain.ensure()
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=2)
    clients.link_kubectl()
    names = {
        "cloud": CLOUD,
        "image": keys.pop("image"),
        "flavor": keys["worker"]["flavor"],
        "network": keys.pop("externalNetwork"),
        "cidr": keys.pop("allowedCidrs")[0],
    }
    del keys["workerCount"]

    # Like a checkout; what the commands write there and in the cloud is gone with the lab.
    folder = ensure(STATE / "quick-start")
    backend = ensure(folder / "backend")
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()  # noqa: S607
    for name in {".venv", *(path.partition("/")[0] for path in tracked)}:
        (folder / name).symlink_to(ROOT / name)
    # What only a cloud of containers needs is there before the first command.
    config = {f"openstack-kubernetes:{key}": value for key, value in keys.items()}
    (folder / "Pulumi.demo.yaml").write_text(yaml.safe_dump({"config": config}))

    environment = {
        **os.environ,
        **toolchain.environment(),
        **inside.environment(),
        "PULUMI_BACKEND_URL": f"file://{backend}",
        "PULUMI_CONFIG_PASSPHRASE": "",
    }
    environment.pop("KUBECONFIG", None)
    environment.pop("PULUMI_CONFIG_PASSPHRASE_FILE", None)

    def start(command: str) -> list[str]:
        return namespace.enter(["bash", "-c", command], folder=folder)

    recording = Recording(start, environment)
    try:
        for typed in COMMANDS:
            print(f"recording: {typed.command}", file=sys.stderr)
            line = typed.command.format(**names)
            recording.run(Typed(command=line, at_most=typed.at_most))
    finally:
        destroy = start("pulumi destroy --yes --skip-preview")
        subprocess.run(destroy, env=environment, check=True)  # noqa: S603 - no input from outside
        shutil.rmtree(folder)
    with tempfile.TemporaryDirectory() as scratch:
        cast = Path(scratch) / "quick-start.cast"
        recording.write(cast)
        render(cast, PICTURE)
    print(PICTURE)


if __name__ == "__main__":
    main()
