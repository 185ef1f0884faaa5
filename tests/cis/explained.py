"""What kube-bench found, and whether docs/cis.md explains it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/cis.md"

# The page has a table of the controls that a program can judge, and one of the others.
_MANUAL = "\n## Manual controls\n"
_ROW = re.compile(r"^\| (\d+\.\d[^|]*) \|", re.M)
_CONTROLS = re.compile(r"(\d+(?:\.\d+)+)(?: to (\d+(?:\.\d+)+))?")


@dataclass(frozen=True)
class Verdict:
    """The results on one machine; each line begins with the number of its control."""

    passed: int
    explained: tuple[str, ...]
    unexplained: tuple[str, ...]

    @staticmethod
    def of(report: Mapping[str, Any], page: str) -> Verdict:
        """Judge what `kube-bench --json` printed; only automated controls may fail."""
        automated, _, manual = page.partition(_MANUAL)
        explained = {"FAIL": _controls(automated), "WARN": _controls(automated + manual)}
        results = [
            result
            for controls in report["Controls"]
            for section in controls["tests"]
            for result in section["results"]
        ]
        passed = sum(result["status"] == "PASS" for result in results)
        others = [result for result in results if result["status"] not in ("PASS", "INFO")]
        lines = {
            known: tuple(
                "{test_number} {status} {test_desc}".format(**result)
                for result in others
                if (result["test_number"] in explained[result["status"]]) == known
            )
            for known in (True, False)
        }
        return Verdict(passed, lines[True], lines[False])


def _controls(tables: str) -> frozenset[str]:
    """The numbers in their first column."""
    return frozenset(number for row in _ROW.findall(tables) for number in _numbers(row))


def _numbers(row: str) -> Iterator[str]:
    for first, last in _CONTROLS.findall(row):
        section, _, begin = first.rpartition(".")
        end = last.rpartition(".")[2] or begin
        yield from (f"{section}.{number}" for number in range(int(begin), int(end) + 1))
