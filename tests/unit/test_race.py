"""The race against other ways to the same cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from bench.race import page, results
from bench.race.inventory import ARCHIVES, ARTIFACTS, downloads, inventory
from bench.race.results import Run
from bench.race.step import CREATE, UPGRADE, Step, measured

BUSY = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def step(seconds: float, **more: float) -> Step:
    return Step(seconds, processor=2 * seconds, memory=100, by_hand=1, **more)  # type: ignore[arg-type]


def run(steps: Mapping[str, Step], **more: Any) -> Run:
    given = {"version": "1a2b3c4", "day": "2026-11-25", "load": 0.1, **more}
    return Run(**given, releases=["v1.35.4", "v1.36.3"], steps=steps)


def test_a_lost_control_plane_is_in_the_groups_for_broken_ones_only() -> None:
    made = inventory({"a": "10.0.0.1", "b": "10.0.0.2"}, {"w": "10.0.0.3"}, ["b"], {})["all"]
    groups = {name: list(group["hosts"]) for name, group in made["children"].items()}
    assert groups == {
        "kube_control_plane": ["a"],
        "etcd": ["a"],
        "kube_node": ["w"],
        "broken_kube_control_plane": ["b"],
        "broken_etcd": ["b"],
    }
    assert "etcd_member_name" in made["hosts"]["b"]
    assert "etcd_member_name" not in made["hosts"]["w"]


def test_every_program_comes_from_the_machine_with_its_own_checksum() -> None:
    archives = ("cni", "containerd", "crictl", "etcd", "nerdctl")
    files = [f"{ARCHIVES}/{name}.tar.gz" for name in archives] + [f"{ARCHIVES}/runc"]
    files += [f"{ARTIFACTS}/v1.36.3/{name}" for name in ("kubeadm", "kubelet", "kubectl")]
    sums = {file: f"sum-of-{file}" for file in files}
    made = downloads("v1.36.3", sums)
    urls = {value for key, value in made.items() if key.endswith("_url")}
    assert urls == {f"file://{file}" for file in files}
    for key in (key for key in made if key.endswith("_url")):
        checksums = [value for value in made.values() if value == f"sha256:sum-of-{made[key][7:]}"]
        assert len(checksums) == 1, key


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "race.json"
    known = {"kubespray": [run({CREATE: step(800, servers=27)}), run({})]}
    results.save(known, file)
    assert results.load(file) == known


def test_runs_of_another_version_are_forgotten() -> None:
    old, new, newer = run({}, version="old"), run({}, version="new"), run({}, version="new")
    assert results.with_run([old, new], newer) == [new, newer]


def test_a_median_is_of_the_runs_that_have_the_step() -> None:
    runs = [
        run({CREATE: step(100), UPGRADE: step(300, failed=2, silence=1.5)}),
        run({CREATE: step(140)}),
        run({CREATE: step(110)}),
    ]
    assert results.medians(runs) == {
        CREATE: step(110),
        UPGRADE: step(300, failed=2, silence=1.5),
    }


def test_the_page_shows_seconds_with_and_without_servers_and_what_failed_or_was_not_run() -> None:
    known = {
        "openstack-kubernetes": [
            run({CREATE: step(120), UPGRADE: step(300, failed=0, silence=0.4)}),
            run({}, day="2026-11-27", load=1.26),
        ],
        "kubespray": [run({CREATE: step(800, servers=27)})],
    }
    lines = page.text(known).splitlines()
    same = "1a2b3c4 | v1.35.4, then v1.36.3"
    assert f"| openstack-kubernetes | {same} | 2 | 2026-11-25 to 2026-11-27 | 0.1, 1.3 |" in lines
    assert f"| kubespray | {same} | 1 | 2026-11-25 | 0.1 |" in lines
    assert f"| {CREATE} | 120 (120), 1 of 2 runs | 800 (827) |" in lines
    assert f"| {UPGRADE} | 300 (300), 1 of 2 runs | - |" in lines
    assert f"| {CREATE} | 240 s, 100 MiB, 1 | 1600 s, 100 MiB, 1 |" in lines
    assert "- openstack-kubernetes: 0.4 s of silence at most, failed polls: 0" in lines
    assert not any(line.startswith("- kubespray") for line in lines)


def test_the_page_shows_the_runs_that_are_kept() -> None:
    _, shown = page.PAGE.read_text().split(page.HEADING)
    assert shown.strip() == page.text(results.load()).strip()


def test_processor_time_includes_a_process_whose_parent_has_ended() -> None:
    def run() -> None:
        started = f"import subprocess; subprocess.Popen([{sys.executable!r}, '-c', {BUSY!r}])"
        subprocess.run([sys.executable, "-c", started], check=True)
        # The orphan is this process's child now.
        [orphan] = psutil.Process().children()
        while orphan.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.1)

    assert measured(run).processor > 0.4
