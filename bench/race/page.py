"""The tables of docs/race.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.page import replace_below
from bench.race.results import Run, medians
from bench.race.step import STEPS, UPGRADE, Step
from lab.paths import PROJECT

PAGE = PROJECT / "docs/race.md"
HEADING = "## The last race\n"


def publish(results: Mapping[str, Sequence[Run]]) -> None:
    """Put these results in the place of the last ones."""
    replace_below(PAGE, HEADING, text(results))


def text(results: Mapping[str, Sequence[Run]]) -> str:
    """Seconds with and without servers, the tools' use of the machine, the API in an upgrade."""
    figures = {contestant: medians(runs) for contestant, runs in results.items()}
    seconds = [
        (what, *(_seconds(figures[of].get(what)) + _succeeded(what, results[of]) for of in figures))
        for what in STEPS
    ]
    used = [(what, *(_used(of.get(what)) for of in figures.values())) for what in STEPS]
    upgrades = [
        f"- {contestant}: {of[UPGRADE].silence:.1f} s of silence at most, "
        f"failed polls: {of[UPGRADE].failed:g}"
        for contestant, of in figures.items()
        if UPGRADE in of
    ]
    return "\n".join(
        (
            "Medians of these runs:",
            "",
            *_table(
                ("contestant", "commit", "Kubernetes", "runs", "days", "load before each"),
                [(contestant, *_runs(of)) for contestant, of in results.items()],
            ),
            "",
            "Seconds, and in brackets with those that the servers took:",
            "",
            *_table(("step", *figures), seconds),
            "",
            "Processor seconds and memory of the tool, and what a person types and edits:",
            "",
            *_table(("step", *figures), used),
            "",
            "The API's `/readyz` during the upgrade, five times a second; a server that is about",
            "to stop says no there, and still serves:",
            "",
            *upgrades,
            "",
        )
    )


def _runs(of: Sequence[Run]) -> tuple[str, ...]:
    days = sorted({run.day for run in of})
    loads = ", ".join(f"{run.load:.1f}" for run in of)
    last = of[-1]
    days_text = " to ".join((days[0], *days[1:][-1:]))
    return last.version, ", then ".join(last.releases), str(len(of)), days_text, loads


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _seconds(step: Step | None) -> str:
    if step is None:
        return "-"
    return f"{step.seconds:.0f} ({step.seconds + step.servers:.0f})"


def _succeeded(what: str, runs: Sequence[Run]) -> str:
    """How many runs the figure is of, if a run failed before the step was done."""
    count = sum(what in run.steps for run in runs)
    return f", {count} of {len(runs)} runs" if 0 < count < len(runs) else ""


def _used(step: Step | None) -> str:
    if step is None:
        return "-"
    by_hand = f", {step.by_hand:g}" if step.by_hand else ""
    return f"{step.processor:.0f} s, {step.memory:.0f} MiB{by_hand}"
