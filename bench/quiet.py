"""Pulumi with a home folder of its own, in which the CLI cannot write its automatic log."""

from __future__ import annotations

import os
from pathlib import Path

from lab.paths import ensure
from lab.stack import Stack


class QuietStack(Stack):
    """A stack whose CLI writes no automatic log: a file takes the place of the log's folder.

    The CLI writes the log whenever it can make that folder, which costs about as much processor
    time as the rest of the CLI.
    """

    def environment(self) -> dict[str, str]:
        """Environment of any stack of the lab, with that home."""
        home = ensure(self.folder / "home")
        (home / "logs").touch()
        plugins = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
        if not (home / "plugins").is_symlink():
            (home / "plugins").symlink_to(plugins)
        return {**super().environment(), "PULUMI_HOME": str(home)}
