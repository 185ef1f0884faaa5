"""Helm charts: where each one comes from, and whether it can be had from there."""

import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pulumi
import yaml

from config.models.addons import AddonsSettings

_TIMEOUT_SECONDS = 10


class ChartError(pulumi.RunError):
    """A chart cannot be had; the message says which, from where, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its pinned version and its official repository."""

    name: str
    version: str
    repository: str


def inputs(chart: Chart, settings: AddonsSettings) -> dict[str, Any]:
    """The inputs of a `helm.v4.Chart` that say where the chart comes from."""
    if settings.chart_directory is not None:
        return {"chart": str(_folder(chart, settings.chart_directory))}
    repository = settings.chart_repository or chart.repository
    if repository.startswith("oci://"):
        return {"chart": f"{repository}/{chart.name}", "version": chart.version}
    return {
        "chart": chart.name,
        "version": chart.version,
        "repository_opts": {"repo": repository},
    }


def check(charts: Iterable[Chart], settings: AddonsSettings, *, ask: bool) -> None:
    """Refuse charts that cannot be had.

    Args:
        charts: every chart that is going to be installed.
        settings: says where they come from.
        ask: whether repositories are asked over the network, too.

    Raises:
        ChartError: with every chart that cannot be had.
    """
    charts, mirror = list(charts), settings.chart_repository
    advice = "put the charts there, or disable these add-ons"
    if settings.chart_directory is not None:
        faults = _missing(charts, settings.chart_directory)
    elif not ask:
        return
    elif mirror is not None and (unlisted := _unlisted(charts, mirror)) is not None:
        faults = unlisted
    else:
        faults = _unreachable(charts, mirror)
        advice = "set addons.chartRepository to a mirror or addons.chartDirectory to a directory"
    if faults:
        raise ChartError("\n  ".join(["charts cannot be had:", *faults, advice]))


def _folder(chart: Chart, directory: str) -> Path:
    # Helm takes a bare name for a chart in a repository; an absolute path is never one.
    return (Path(directory).expanduser() / chart.name).resolve()


def _missing(charts: Iterable[Chart], directory: str) -> list[str]:
    return [
        f"addons.chartDirectory = {directory}: there is no {folder}/Chart.yaml"
        for folder in (_folder(chart, directory) for chart in charts)
        if not (folder / "Chart.yaml").is_file()
    ]


def _unlisted(charts: Iterable[Chart], mirror: str) -> list[str] | None:
    """Charts that somebody forgot to mirror in their version; official repositories have them.

    None when the mirror does not say, or is not there.
    """
    if mirror.startswith("oci://"):
        return None
    url = f"{mirror}/index.yaml"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            # An index may have megabytes: the loader in Python would take a minute.
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            entries = yaml.load(answer, loader)["entries"]  # noqa: S506 - safe, both of them
        listed = {
            (name, _release(each["version"]))
            for name, releases in entries.items()
            for each in releases
        }
    except (OSError, HTTPException, yaml.YAMLError, AttributeError, KeyError, TypeError):
        # Whatever is wrong with an index, Helm finds out, too.
        return None
    return [
        f"addons.chartRepository = {mirror}: {url} lists no {chart.name} {chart.version}"
        for chart in charts
        if (chart.name, _release(chart.version)) not in listed
    ]


def _release(version: str) -> str:
    """A version as Helm compares it."""
    return version.removeprefix("v").partition("+")[0]


def _unreachable(charts: Iterable[Chart], mirror: str | None) -> list[str]:
    wanted: dict[str, list[str]] = {}
    for chart in charts:
        wanted.setdefault(mirror or chart.repository, []).append(chart.name)
    if not wanted:
        return []
    with ThreadPoolExecutor(len(wanted)) as threads:
        problems = threads.map(_problem, wanted)
    return [
        f"{repository} ({', '.join(names)}): {problem}"
        for (repository, names), problem in zip(wanted.items(), problems, strict=True)
        if problem is not None
    ]


def _problem(repository: str) -> str | None:
    """Why a repository does not answer, None when it does."""
    parts = urlsplit(repository)
    # A registry answers here even to those who must log in; a repository always has an index.
    url = f"https://{parts.netloc}/v2/" if parts.scheme == "oci" else f"{repository}/index.yaml"
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - the settings check the scheme
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        # It is there; whether it lets Helm in, or knows HEAD, is for Helm to find out.
        return f"{url} does not exist" if error.code == 404 and parts.scheme != "oci" else None
    except urllib.error.URLError as error:
        return getattr(error.reason, "strerror", None) or str(error.reason)
    except OSError as error:
        return str(error)
