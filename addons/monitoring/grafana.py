"""Grafana dashboards as data: panels in, the JSON that Grafana's sidecar takes out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# The data source that kube-prometheus-stack makes.
_PROMETHEUS = {"type": "prometheus", "uid": "prometheus"}
_COLUMNS = 24
_HEIGHT = 7


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: legends (with `{{label}}`) to PromQL."""

    title: str
    queries: Mapping[str, str]
    # Grafana's name of the unit: `s`, `bytes`, `percentunit`, `short`.
    unit: str = "short"
    kind: Literal["timeseries", "stat"] = "timeseries"
    # Of 24 columns.
    width: int = 8

    def document(self, number: int, x: int, y: int) -> dict[str, Any]:
        """The panel at this place of the grid."""
        # Grafana leaves the legend of a lone number out, and writes those of several very small.
        options = {"textMode": "value_and_name", "text": {"titleSize": 14, "valueSize": 40}}
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "datasource": _PROMETHEUS,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            **({"options": options} if self.kind == "stat" else {}),
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "expr": expression,
                    "legendFormat": legend,
                    # A number is that of now.
                    "instant": self.kind == "stat",
                    "range": self.kind != "stat",
                    "datasource": _PROMETHEUS,
                }
                for index, (legend, expression) in enumerate(self.queries.items())
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A dashboard: its panels fill rows from left to right."""

    name: str
    # One that no other dashboard has: of two with the same title Grafana shows neither for long.
    title: str
    panels: Sequence[Panel]

    def text(self) -> str:
        """The JSON, the same at every run."""
        documents: list[dict[str, Any]] = []
        x = y = 0
        for number, panel in enumerate(self.panels, start=1):
            if x + panel.width > _COLUMNS:
                x, y = 0, y + _HEIGHT
            documents.append(panel.document(number, x, y))
            x += panel.width
        return json.dumps(
            {
                "uid": f"openstack-kubernetes-{self.name}",
                "title": self.title,
                "tags": ["openstack-kubernetes"],
                "schemaVersion": 39,
                "editable": False,
                "refresh": "30s",
                "time": {"from": "now-6h", "to": "now"},
                "panels": documents,
            },
            indent=1,
        )
