"""The page about a run, from the JUnit files that ginkgo has written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from tests.conformance.suite import SUITES

Status = Literal["passed", "failed", "skipped"]
# ginkgo puts the kind of node in front, and the labels behind.
NAME = re.compile(r"^\[It\] (.*?)(?: \[[^\]]*\])?$")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A test that was chosen; the reason says why it failed or skipped itself."""

    name: str
    status: Status
    seconds: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Results:
    """The tests of one run, and the day on which it ended."""

    day: date
    outcomes: Sequence[Outcome]


def read(file: Path) -> Results:
    """Read the tests that ran, and whatever else has failed: the suite's own preparation."""
    outcomes = (_outcome(case) for case in ElementTree.parse(file).iter("testcase"))
    return Results(
        day=datetime.fromtimestamp(file.stat().st_mtime, UTC).date(),
        outcomes=[each for each in outcomes if each is not None],
    )


def _outcome(case: ElementTree.Element) -> Outcome | None:
    full = case.get("name", "")
    found = NAME.match(full)
    name, seconds = found[1] if found else full, float(case.get("time") or 0)
    for kind in ("failure", "error"):
        problem = case.find(kind)
        if problem is not None:
            reason = _one_line(problem.get("message") or problem.text or "")
            return Outcome(name=name, status="failed", seconds=seconds, reason=reason)
    skipped = case.find("skipped")
    if skipped is not None:
        # Without a reason it was not chosen: ginkgo lists those as well.
        reason = (skipped.get("message") or "").partition(" - ")[2]
        if not reason or not found:
            return None
        return Outcome(name=name, status="skipped", seconds=seconds, reason=_one_line(reason))
    return Outcome(name=name, status="passed", seconds=seconds) if found else None


def _one_line(text: str) -> str:
    # What was expected is often said in lines of its own.
    line = " ".join(text.split()) or "no message"
    return line[:500].replace("|", "\\|").replace("<", "&lt;")


@dataclass(frozen=True, kw_only=True)
class Report:
    """All runs of a suite, by name, and every test that must be in one of them."""

    suite: str
    version: str
    nodes: int
    runs: Mapping[str, Results]
    known: Iterable[str]
    note: str = ""
    # Regular expressions for the names of tests that were left out, and why.
    left_out: Mapping[str, str] = field(default_factory=dict)

    def having(self, status: Status) -> list[Outcome]:
        """The tests with this outcome, in the order of their names."""
        found = [each for each in self._outcomes() if each.status == status]
        return sorted(found, key=lambda each: each.name)

    def not_run(self) -> list[str]:
        """The tests that no run has reported."""
        return sorted(set(self.known) - {each.name for each in self._outcomes()})

    def passed(self) -> bool:
        """True if tests of each run have passed, and none has failed.

        Of a complete suite, each must have passed.
        """
        suite = SUITES[self.suite]
        skipped = suite.complete and self.having("skipped")
        each_run = self.runs.keys() == suite.runs.keys() and all(
            any(each.status == "passed" for each in run.outcomes) for run in self.runs.values()
        )
        return each_run and not (self.having("failed") or skipped or self.not_run())

    def text(self) -> str:
        """The page."""
        where = f"Kubernetes {self.version}, {self.nodes} nodes."
        counted: list[Status] = ["passed", "failed", "skipped"]
        suite = SUITES[self.suite]
        first, *more = suite.about
        lines = [
            f"# {suite.title}",
            "",
            f"Written by `make {self.suite}`, which runs {first}",
            *more,
            "[How to run it](operations/environments.md#conformance).",
            "",
            f"{where} {self.note}".strip(),
            "",
            "| run | day | " + " | ".join(counted) + " | seconds of the tests |",
            "|---|---|---|---|---|---|",
        ]
        for name in (each for each in suite.runs if each in self.runs):
            run = self.runs[name]
            numbers = [sum(each.status == status for each in run.outcomes) for status in counted]
            numbers.append(round(sum(each.seconds for each in run.outcomes)))
            lines.append(f"| {name} | {run.day} | " + " | ".join(map(str, numbers)) + " |")
        failed = self.having("failed")
        if failed:
            lines += ["", "## Failed", "", "| test | why |", "|---|---|"]
            lines += [f"| {_cell(each.name)} | {each.reason} |" for each in failed]
        skipped = Counter(each.reason for each in self.having("skipped"))
        if skipped:
            lines += ["", "## Skipped themselves", "", "| tests | why |", "|---|---|"]
            lines += [f"| {count} | {reason} |" for reason, count in skipped.most_common()]
        suite_itself = {
            key: why for run in suite.runs.values() for key, why in run.left_out.items()
        }
        left_out = {**suite_itself, **self.left_out}
        if left_out:
            lines += ["", "## Left out", "", "| tests | why |", "|---|---|"]
            lines += [f"| {_cell(pattern)} | {why} |" for pattern, why in left_out.items()]
        if self.not_run():
            lines += ["", "## Not run", "", *(f"- {_cell(name)}" for name in self.not_run())]
        return "\n".join(lines) + "\n"

    def _outcomes(self) -> list[Outcome]:
        return [each for run in self.runs.values() for each in run.outcomes]


def _cell(name: str) -> str:
    """A test's name as code: it has brackets, which would be links."""
    return f"`{name.replace('|', chr(92) + '|')}`"
