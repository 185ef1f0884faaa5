"""The fleet's commands with Pulumi's real CLI and a local backend; clusters are outputs only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.image.versions import KUBERNETES as VERSION
from lab.paths import PROJECT, ensure
from lab.until import until
from tests.lab import own_backend
from tests.lab.engine import PROGRAMS


class Backend:
    """A folder with a backend, and one for each project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = own_backend.environment(
            {
                "PYTHONPATH": str(PROJECT),
                "PULUMI_HOME": str(ensure(folder / "home")),
                "PULUMI_BACKEND_URL": f"file://{ensure(folder / 'state')}",
            }
        )

    def run(
        self, project: str, *command: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder / project, env={**self.environment, **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def pulumi(self, project: str, *words: str) -> str:
        done = self.run(project, "pulumi", *words, "--non-interactive")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fleet(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("ours", sys.executable, "-m", "commands.fleet", *words, **environment)

    def listed(self, *options: str) -> dict[str, Any]:
        """Entries of the list by name."""
        found = json.loads(self.fleet("list", *options, "--output", "json").stdout)
        return {each["name"]: each for each in found}

    def add(self, project: str, stack: str, cidr: str) -> None:
        """Add a cluster to a project."""
        folder = ensure(self.folder / project)
        (folder / "Pulumi.yaml").write_text(
            yaml.safe_dump({"name": project, "runtime": "python", "main": str(PROGRAMS / "fleet")})
        )
        self.pulumi(project, "stack", "init", stack)
        self.configure(project, stack, kubernetesVersion=VERSION, hostCidr=cidr)
        self.pulumi(project, "up", "--yes", "--skip-preview", "--stack", stack)

    def configure(self, project: str, stack: str, **keys: str) -> None:
        for key, value in keys.items():
            self.pulumi(project, "config", "set", key, value, "--stack", stack)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Backend:
    """Two clusters of our project, and one of another project that is called like ours."""
    made = Backend(tmp_path_factory.mktemp("fleet"))
    made.add("ours", "demo", "10.8.0.0/22")
    made.add("ours", "shop", "10.8.4.0/22")
    made.add("theirs", "demo", "10.8.8.0/22")
    return made


def test_only_the_clusters_of_this_project_are_listed(backend: Backend) -> None:
    found = backend.listed()
    assert {name: each["hostCidr"] for name, each in found.items()} == {
        "demo": "10.8.0.0/22",
        "shop": "10.8.4.0/22",
    }
    assert found["demo"]["lastUpdateResult"] == "succeeded"
    assert len(found["demo"]["problems"]) == 1
    # Its output is no kubeconfig.
    assert "the current context has no server with a CA" in found["demo"]["problems"][0]


def test_a_wrong_passphrase_is_a_line_for_each(backend: Backend) -> None:
    done = backend.fleet("list", PULUMI_CONFIG_PASSPHRASE="another one")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["demo", "shop"]
    assert all("incorrect passphrase" in line for line in lines)


def test_drift_is_shown_for_the_stack_that_has_it(backend: Backend) -> None:
    backend.configure("ours", "shop", size="large")
    found = backend.listed("--drift")
    assert {name: each["drift"] for name, each in found.items()} == {"demo": False, "shop": True}
    backend.pulumi("ours", "config", "rm", "size", "--stack", "shop")


@pytest.mark.parametrize("project", ["ours", "theirs"])
def test_the_lock_of_an_update_is_told_for_its_own_stack_only(
    backend: Backend, project: str
) -> None:
    busy = backend.folder / "busy"
    busy.touch()
    backend.configure(project, "demo", busy=str(busy))
    locks = backend.folder / f"state/.pulumi/locks/organization/{project}/demo"
    line = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", "demo"]
    with subprocess.Popen(
        line,
        cwd=backend.folder / project,
        env=backend.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as update:
        try:
            until(lambda: list(locks.glob("*.json")), "the lock", 60)
            found = backend.listed()
        finally:
            busy.unlink()
        assert update.wait(timeout=60) == 0
    told = [name for name, each in found.items() if "an update is at work" in each["problems"][0]]
    assert told == (["demo"] if project == "ours" else [])


def test_an_upgrade_that_one_preview_refuses_changes_nothing(backend: Backend) -> None:
    done = backend.fleet("upgrade", "--to", "v1.38.0", "--yes")
    assert done.returncode == 1
    assert "shop: the configuration cannot be used, 1 fault:\n  kubernetesVersion" in done.stderr
    assert done.stderr.endswith("nothing was changed\n")
    for name in ("demo", "shop"):
        assert "v1.38.0" not in (backend.folder / f"ours/Pulumi.{name}.yaml").read_text()


def test_without_an_answer_nothing_is_upgraded(backend: Backend) -> None:
    done = backend.fleet("upgrade", "--to", "v1.36.4", "shop")
    assert done.returncode == 1
    assert "Upgrade shop to v1.36.4?" in done.stdout
    assert VERSION in (backend.folder / "ours/Pulumi.shop.yaml").read_text()
    assert (
        json.loads(backend.pulumi("ours", "stack", "output", "--json", "--stack", "shop"))[
            "kubernetesVersion"
        ]
        == VERSION
    )


def test_a_new_stack_gets_the_configuration_of_another(backend: Backend) -> None:
    backend.pulumi("ours", "config", "set", "--secret", "key", "secret", "--stack", "demo")
    backend.pulumi("ours", "stack", "init", "third", "--copy-config-from", "demo", "--no-select")
    assert backend.pulumi("ours", "config", "get", "key", "--stack", "third").strip() == "secret"
    [problem] = backend.listed()["third"]["problems"]
    assert problem.startswith("has no cluster: it never came up")
