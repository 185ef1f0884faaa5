"""Bars that show where the seconds of an update go, on the console and as an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

CELLS = 60
# Rich's own template loads a font from a web server.
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}">
<title>@TITLE@</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px monospace }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="100%" height="100%" fill="#292929"/>
<g class="{unique_id}-matrix">{backgrounds}{matrix}</g>
</svg>
"""


@dataclass(frozen=True)
class Bar:
    """A line of the picture: its cells, and the times in seconds when it was busy."""

    cells: Sequence[str]
    busy: Sequence[tuple[float, float]]


def draw(title: str, columns: Sequence[str], bars: Sequence[Bar], file: Path | None = None) -> None:
    """Print the bars, and write them as an SVG too."""
    console = Console(record=True, width=124)
    console.print(_table(columns, bars) if bars else "nothing changed")
    if file:
        template = SVG.replace("@TITLE@", title)
        console.save_svg(str(file), title=title, code_format=template)


def _table(columns: Sequence[str], bars: Sequence[Bar]) -> Table:
    last = max((end for bar in bars for _, end in bar.busy), default=0) or 1
    table = Table(box=None, padding=(0, 1))
    for name in columns:
        table.add_column(name, no_wrap=True)
    table.add_column(f"0 to {last:.0f} s", no_wrap=True)
    for bar in bars:
        line = Text()
        for cell in range(CELLS):
            begin, end = cell * last / CELLS, (cell + 1) * last / CELLS
            busy = any(since < end and until > begin for since, until in bar.busy)
            line.append("█" if busy else " ", style="green")
        table.add_row(*bar.cells, line)
    return table
