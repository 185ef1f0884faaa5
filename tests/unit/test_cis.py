"""Results of kube-bench, compared with the page that explains them."""

from __future__ import annotations

from typing import Any

from tests.cis.explained import PAGE, Verdict

TABLES = """
1.9.9 and `4.4.4` in a sentence
| control | asks for | here |
|---|---|---|
| 1.1.12 | 9.9.9 | not here |

## Manual controls

| control | state |
|---|---|
| 2.7 a CA of its own | yes |
| 5.1.3 to 5.1.5, 5.1.8 roles, as in 5.9 | up to you |
"""


def report(**statuses: str) -> dict[str, Any]:
    """What `kube-bench --json` prints; `c1_2_3="FAIL"` is the control 1.2.3."""
    results = [
        {"test_number": name[1:].replace("_", "."), "test_desc": "a control", "status": status}
        for name, status in statuses.items()
    ]
    return {"Controls": [{"tests": [{"results": results}]}], "Totals": {}}


def test_only_what_is_not_good_needs_an_explanation() -> None:
    found = Verdict.of(report(c1_1_1="PASS", c1_1_2="INFO", c1_1_12="FAIL", c1_9_9="FAIL"), TABLES)
    assert found.passed == 1
    assert found.explained == ("1.1.12 FAIL a control",)
    assert found.unexplained == ("1.9.9 FAIL a control",)


def test_rows_may_name_several_controls() -> None:
    known = {f"c5_1_{number}": "WARN" for number in (3, 4, 5, 8)}
    found = Verdict.of(report(**known, c5_1_6="WARN", c5_9="WARN"), TABLES)
    assert len(found.explained) == 5
    assert found.unexplained == ("5.1.6 WARN a control",)


def test_a_manual_control_must_not_fail() -> None:
    assert Verdict.of(report(c2_7="WARN"), TABLES).unexplained == ()
    assert Verdict.of(report(c2_7="FAIL"), TABLES).unexplained == ("2.7 FAIL a control",)


def test_the_page_has_both_tables() -> None:
    found = Verdict.of(report(c1_1_12="FAIL", c5_1_13="WARN"), PAGE.read_text())
    assert found.unexplained == ()
