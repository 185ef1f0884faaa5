"""Grafana dashboards as data, and as the JSON that Grafana's sidecar loads."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# The data source that kube-prometheus-stack configures.
_PROMETHEUS = {"type": "prometheus", "uid": "prometheus"}
_COLUMNS = 24
_HEIGHT = 7


@dataclass(frozen=True, kw_only=True)
class GrafanaPanel:
    """One panel; `queries` maps legends (with `{{label}}`) to PromQL."""

    title: str
    queries: Mapping[str, str]
    # Grafana's name for the unit, such as `s`, `bytes` or `percentunit`.
    unit: str = "short"
    kind: Literal["timeseries", "stat"] = "timeseries"
    # Of 24 columns.
    width: int = 8

    def document(self, number: int, x: int, y: int) -> dict[str, Any]:
        """Return the panel's JSON at this place of the grid."""
        # By default, Grafana omits the legend of a single number and makes several tiny.
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
                    # A single number is the current one.
                    "instant": self.kind == "stat",
                    "range": self.kind != "stat",
                    "datasource": _PROMETHEUS,
                }
                for index, (legend, expression) in enumerate(self.queries.items())
            ],
        }


@dataclass(frozen=True, kw_only=True)
class GrafanaDashboard:
    """A dashboard whose panels fill rows from left to right."""

    name: str
    # Must be unique: Grafana soon removes both dashboards of the same title.
    title: str
    panels: Sequence[GrafanaPanel]

    @property
    def uid(self) -> str:
        """Grafana's own name for the dashboard."""
        return f"openstack-kubernetes-{self.name}"

    def text(self) -> str:
        """Return the JSON, the same at every run."""
        documents: list[dict[str, Any]] = []
        x = y = 0
        for number, panel in enumerate(self.panels, start=1):
            if x + panel.width > _COLUMNS:
                x, y = 0, y + _HEIGHT
            documents.append(panel.document(number, x, y))
            x += panel.width
        return json.dumps(
            {
                "uid": self.uid,
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
