"""The model of an alert."""

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert: `summary` says what is wrong, `action` what to do about it."""

    name: str
    expression: str
    # How long the expression must be true, in Prometheus' notation.
    lasting: str
    severity: Severity
    summary: str
    action: str

    def document(self) -> dict[str, Any]:
        """Return the rule as it stands in a PrometheusRule."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.action},
        }
