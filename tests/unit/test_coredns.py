"""The pods of CoreDNS follow the number of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from components.coredns import coredns_variables
from config.load import load
from tests.unit.engine import MINIMAL


def variables(control_planes: int, workers: int, **settings: Any) -> dict[str, str]:
    chosen = {"controlPlaneCount": control_planes, "workerCount": workers, "addons": {}, **settings}
    return coredns_variables(load({**MINIMAL, **chosen}, "demo"))


@pytest.mark.parametrize(
    ("control_planes", "workers", "replicas"),
    [(1, 0, "1"), (1, 1, "2"), (3, 2, "2"), (3, 29, "2"), (3, 30, "3"), (3, 200, "13")],
)
def test_coredns_grows_with_the_cluster_and_survives_a_node(
    control_planes: int, workers: int, replicas: str
) -> None:
    assert variables(control_planes, workers)["COREDNS_REPLICAS"] == replicas


@pytest.mark.parametrize(("effect", "replicas"), [("NoSchedule", "1"), ("PreferNoSchedule", "2")])
def test_nodes_that_coredns_cannot_run_on_do_not_count(effect: str, replicas: str) -> None:
    worker = {"taints": [{"key": "gpu", "effect": effect}]}
    assert variables(1, 1, worker=worker)["COREDNS_REPLICAS"] == replicas


@pytest.mark.parametrize(
    ("addons", "installed"),
    [
        ({}, "true"),
        ({"nodeDns": {"enabled": False}}, "false"),
        ({"cni": {"kind": "none"}}, "false"),
    ],
)
def test_coredns_runs_on_every_node_if_cilium_leads_pods_to_it(
    addons: dict[str, Any], installed: str
) -> None:
    assert variables(3, 2, addons=addons)["NODE_DNS"] == installed
