"""Pulumi with a home folder of its own, in which the CLI cannot write its automatic log."""

from __future__ import annotations

from pathlib import Path

from lab.paths import ensure
from lab.stack import Stack
from lab.toolchain import plugins


def home(folder: Path) -> Path:
    """Make a home in this folder that has the user's plugins, and a file in the log's place.

    The CLI writes the log whenever it can make that folder, which costs about as much processor
    time as the rest of the CLI.
    """
    made = ensure(folder / "home")
    (made / "logs").touch()
    if not (made / "plugins").is_symlink():
        (made / "plugins").symlink_to(plugins.home() / "plugins")
    return made


class QuietStack(Stack):
    """A stack whose CLI writes no automatic log."""

    def environment(self) -> dict[str, str]:
        """Environment of any stack of the lab, with that home."""
        return {**super().environment(), "PULUMI_HOME": str(home(self.folder))}
