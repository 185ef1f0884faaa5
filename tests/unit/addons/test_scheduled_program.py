"""Programs of our own as their pods run them: from ConfigMaps, with nothing else of the project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.addons.install import OPERATOR, AddonsRun, install

SNAPSHOTS = {
    "snapshots": {"enabled": True, "schedules": [{"name": "nightly", "schedule": "@daily"}]}
}


@pytest.fixture(scope="module")
def run() -> AddonsRun:
    return install({**OPERATOR, **SNAPSHOTS})


@pytest.mark.parametrize(
    ("job", "config_map"),
    [("snapshots-nightly", "take-snapshots"), ("retry-stacks", "retry-stacks")],
)
def test_the_pod_has_all_that_the_program_imports(
    run: AddonsRun, tmp_path: Path, job: str, config_map: str
) -> None:
    spec = run.one(":CronJob", f"demo-addons-{job}").inputs["spec"]["jobTemplate"]["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    [container] = pod["containers"]
    [mount], [volume] = container["volumeMounts"], pod["volumes"]
    assert (mount["name"], volume["configMap"]["name"]) == (volume["name"], config_map)
    files = run.one("core/v1:ConfigMap", f"demo-addons-{config_map}").inputs["data"]
    folder = tmp_path / Path(mount["mountPath"]).relative_to("/")
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [sys.executable, *container["command"][1:]],
        cwd=tmp_path / Path(container["workingDir"]).relative_to("/"),
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    # It gets as far as to ask where it is.
    assert done.stderr.splitlines()[-1] in (
        "KeyError: 'SCHEDULE'",
        "KeyError: 'KUBERNETES_SERVICE_HOST'",
    )


def test_no_other_run_begins_meanwhile(run: AddonsRun) -> None:
    for job in run.all(":CronJob").values():
        assert job.inputs["spec"]["concurrencyPolicy"] == "Forbid"
