"""Pulumi with a home of the bench's own: no log of every call on disk."""

from __future__ import annotations

import os
from pathlib import Path

from lab.paths import ensure
from lab.stack import Stack


class QuietStack(Stack):
    """A stack whose CLI keeps no automatic log: a plain file stands where its folder would be.

    The log is written whenever that folder can be made, and costs about as much processor time as
    the rest of the CLI.
    """

    def environment(self) -> dict[str, str]:
        """As of any stack of the lab, with that home."""
        home = ensure(self.folder / "home")
        (home / "logs").touch()
        plugins = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
        if not (home / "plugins").is_symlink():
            (home / "plugins").symlink_to(plugins)
        return {**super().environment(), "PULUMI_HOME": str(home)}
