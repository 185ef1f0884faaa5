"""Results of kube-bench, compared with the page that explains them."""

from __future__ import annotations

from typing import Any

from tests.cis.explained import PAGE, Verdict, explained


def report(**statuses: str) -> dict[str, Any]:
    """What `kube-bench --json` prints; `c1_2_3="FAIL"` is the control 1.2.3."""
    results = [
        {"test_number": name[1:].replace("_", "."), "test_desc": "a control", "status": status}
        for name, status in statuses.items()
    ]
    return {"Controls": [{"tests": [{"results": results}]}], "Totals": {}}


def test_the_page_explains_single_controls_and_ranges() -> None:
    page = """
1.9.9 and `4.4.4` in a sentence
| control | state |
|---|---|
| 1.1.12 | 9.9.9 here |
| 2.7 a CA of its own | yes |
| 5.1.3 to 5.1.5, 5.1.8 roles, as in 5.9 | up to you |
"""
    assert explained(page) == {"1.1.12", "2.7", "5.1.3", "5.1.4", "5.1.5", "5.1.8", "5.9"}


def test_only_what_is_not_good_needs_an_explanation() -> None:
    found = Verdict.of(
        report(c1_1_1="PASS", c1_1_2="INFO", c1_1_12="FAIL", c1_2_1="WARN", c4_1_1="FAIL"),
        frozenset({"1.1.12", "1.2.1"}),
    )
    assert found.passed == 1
    assert found.explained == ("1.1.12 FAIL a control", "1.2.1 WARN a control")
    assert found.unexplained == ("4.1.1 FAIL a control",)


def test_the_page_has_the_controls_of_a_benchmark() -> None:
    known = explained(PAGE.read_text())
    assert {"1.1.12", "1.3.7", "5.1.13", "5.2.5"} <= known
    assert len(known) > 50
