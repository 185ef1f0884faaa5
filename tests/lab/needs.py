"""Files that a user has to put into the lab's cache so that an add-on can run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.image import archives
from lab.image.charts import CHARTS, FETCHED


def chart_folder(name: str) -> Path:
    """Folder of a chart: among the lab's own, else where a user has to put it."""
    own = CHARTS / name
    return own if own.is_dir() else FETCHED / name


def every_chart(folder: Path) -> Path:
    """Fill one folder with the lab's own charts and those that a user has added."""
    for source in (CHARTS, FETCHED):
        for chart in source.glob("*/Chart.yaml"):
            if not (folder / chart.parent.name).exists():
                (folder / chart.parent.name).symlink_to(chart.parent)
    return folder


@dataclass(frozen=True)
class Needs:
    """Charts that an add-on needs, and archives of images that the lab cannot build."""

    charts: tuple[str, ...]
    archives: tuple[str, ...] = ()

    def missing_charts(self) -> list[str]:
        """Charts that are not in the cache."""
        return [name for name in self.charts if not chart_folder(name).is_dir()]

    def require(self) -> None:
        """Fail a test that is only run when it is asked for."""
        if missing := self.missing():
            pytest.fail(f"put there what it needs: {', '.join(missing)}", pytrace=False)

    def missing(self) -> list[str]:
        """Files that are not in the cache."""
        charts = [chart_folder(name) for name in self.missing_charts()]
        files = [archives.FETCHED / f"{name}.tar" for name in self.archives]
        return [str(each) for each in (*charts, *(each for each in files if not each.exists()))]
