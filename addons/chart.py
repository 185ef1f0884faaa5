"""Helm charts: where each one comes from, and whether it is available there."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pulumi
import yaml
from httpx import codes

from addons.http_client import NoAnswerError, request
from config.errors import without_password
from config.models.addons import AddonsSettings

_TIMEOUT_SECONDS = 10.0


class ChartError(pulumi.RunError):
    """A chart that is not available; the message says which, from where, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its pinned version and its official repository."""

    name: str
    version: str
    repository: str


def inputs(chart: Chart, settings: AddonsSettings) -> dict[str, Any]:
    """Return the inputs of a `helm.v4.Chart` that say where the chart comes from."""
    if settings.chart_directory is not None:
        return {"chart": str(_folder(chart, settings.chart_directory))}
    repository = settings.chart_repository or chart.repository
    if _is_oci(repository):
        return {"chart": f"{repository}/{chart.name}", "version": chart.version}
    return {
        "chart": chart.name,
        "version": chart.version,
        "repository_opts": {"repo": repository},
    }


def check(charts: Iterable[Chart], settings: AddonsSettings, *, online: bool) -> None:
    """Refuse charts that are not available, and warn of those in a folder that are others.

    Args:
        charts: every chart that is going to be installed.
        settings: where they come from.
        online: whether to ask repositories over the network, too.

    Raises:
        ChartError: naming every chart that is not available.
    """
    charts, mirror = list(charts), settings.chart_repository
    advice = "put the charts there, or disable these add-ons"
    if settings.chart_directory is not None:
        faults = _missing(charts, settings.chart_directory)
        for other in [] if faults else _of_other_versions(charts, settings.chart_directory):
            pulumi.log.warn(other)
    elif not online:
        return
    elif mirror is not None and (unlisted := _unlisted(charts, mirror)) is not None:
        faults = unlisted
    else:
        faults = _unreachable(charts, mirror)
        advice = "set addons.chartRepository to a mirror or addons.chartDirectory to a directory"
        if mirror is not None:
            advice = "correct addons.chartRepository, or set addons.chartDirectory to a directory"
    if faults:
        message = "\n  ".join(["charts not available:", *faults, advice])
        raise ChartError(without_password(message))


def _is_oci(repository: str) -> bool:
    return repository.startswith("oci://")


def _index(repository: str) -> str:
    return f"{repository}/index.yaml"


def _folder(chart: Chart, directory: str) -> Path:
    # Helm takes a bare name for a chart in a repository; an absolute path is never one.
    return (Path(directory).expanduser() / chart.name).resolve()


def _missing(charts: Iterable[Chart], directory: str) -> list[str]:
    return [
        f"addons.chartDirectory = {directory}: there is no {folder}/Chart.yaml"
        for folder in (_folder(chart, directory) for chart in charts)
        if not (folder / "Chart.yaml").is_file()
    ]


def _of_other_versions(charts: Iterable[Chart], directory: str) -> Iterator[str]:
    """Name the charts that this program's values were not written for: Helm takes them as well."""
    for chart in charts:
        try:
            version = str(
                yaml.safe_load((_folder(chart, directory) / "Chart.yaml").read_bytes())["version"]
            )
        except (yaml.YAMLError, KeyError, TypeError):
            # Helm reports whatever is wrong with a chart.
            continue
        if _release(version) != _release(chart.version):
            yield (
                f"addons.chartDirectory = {directory}: {chart.name} is {version}, and the "
                f"program's values are for {chart.version}"
            )


def _unlisted(charts: Iterable[Chart], mirror: str) -> list[str] | None:
    """Name the charts whose version a mirror lacks; None if its index cannot be read.

    Official repositories have every version.
    """
    if _is_oci(mirror):
        return None
    url = _index(mirror)
    try:
        listed = _listed(url)
    except (NoAnswerError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        # Helm reports whatever is wrong with an index.
        return None
    return [
        f"addons.chartRepository = {mirror}: {url} lists no {chart.name} {chart.version}"
        for chart in charts
        if (chart.name, _release(chart.version)) not in listed
    ]


def _listed(url: str) -> set[tuple[str, str]]:
    """Return the name and version of every chart in an index."""
    answer = request("GET", url, timeout=_TIMEOUT_SECONDS)
    if answer.is_error:
        raise NoAnswerError(f"HTTP status {answer.status_code}")
    # An index may have megabytes: the loader written in Python would take a minute.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries = yaml.load(answer.content, loader)["entries"]  # noqa: S506 - both are safe
    return {
        (name, _release(each["version"])) for name, releases in entries.items() for each in releases
    }


def _release(version: str) -> str:
    """Return a version as Helm compares it."""
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
    """Say why a repository does not answer; None if it does."""
    oci = _is_oci(repository)
    # A registry answers here even without a login; a repository always has an index.
    url = f"https://{urlsplit(repository).netloc}/v2/" if oci else _index(repository)
    try:
        answer = request("HEAD", url, timeout=_TIMEOUT_SECONDS)
    except NoAnswerError as error:
        return str(error)
    # Any other refusal, of HEAD or of a login, is for Helm to report.
    missing = answer.status_code == codes.NOT_FOUND and not oci
    return f"{url} does not exist" if missing else None
