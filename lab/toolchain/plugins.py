"""Resource plugins of the program's Python packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from lab.console import say, step
from lab.errors import LabError
from lab.gobuild import build, module_folder
from lab.toolchain import download, files, versions

KUBERNETES = "github.com/pulumi/pulumi-kubernetes/provider/v4"
# A file next to the program, so that no one takes it for the official one.
MARK = "BUILT_BY_LAB"
# Seconds after which a plugin's download is given up.
DOWNLOAD_PATIENCE = 300


def home() -> Path:
    return Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")


def folder(name: str, version: str) -> Path:
    """Folder where Pulumi looks for a plugin."""
    return home() / "plugins" / f"resource-{name}-v{version}"


def origin(name: str, version: str) -> str:
    """Say who built an installed plugin: `official`, `lab`, or an empty text if it is missing."""
    place = folder(name, version)
    # Pulumi leaves this file next to a folder it has not finished, and then ignores the folder.
    unfinished = place.with_name(f"{place.name}.partial").exists()
    if unfinished or not (place / f"pulumi-resource-{name}").exists():
        return ""
    return "lab" if (place / MARK).exists() else "official"


def ensure_installed(name: str, version: str, pulumi: Path, *, offline: bool) -> None:
    """Install one plugin, unless the official one is there."""
    made_by = origin(name, version)
    if made_by == "official":
        return
    if (
        not offline
        and not made_by
        and download.reachable(versions.sdk())
        and _official(name, version, pulumi)
    ):
        return
    if not (versions.GO / name / "go.mod").exists():
        raise LabError(
            f"plugin {name} {version} cannot be downloaded, and the lab has no module to build it:"
            f" run `pulumi plugin install resource {name} v{version}` on a machine that can, and"
            f" copy it to {folder(name, version)}; or add a Go module {versions.GO / name}"
        )
    _built(name, version)


def _official(name: str, version: str, pulumi: Path) -> bool:
    command = [str(pulumi / "pulumi"), "plugin", "install", "resource", name, f"v{version}"]
    with step(f"download plugin {name} {version}"):
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=DOWNLOAD_PATIENCE
            )
        except subprocess.TimeoutExpired:
            say(f"{name} was not downloaded within {DOWNLOAD_PATIENCE}s: building it")
            return False
    if result.returncode != 0:
        say(f"{name} cannot be downloaded ({result.stderr.strip()[-200:]}): building it")
        return False
    return True


def _built(name: str, version: str) -> None:
    program = f"pulumi-resource-{name}"
    module = versions.GO / name
    made = build(program, module, {program: "."}, ldflags=[f"-X main.version={version}"])
    files.remove_others(made)
    mark = (
        f"This plugin was built by the lab of openstack-kubernetes from Go modules ({made.name}).\n"
        "It is not the official one, which `pulumi plugin install --reinstall` puts in its place.\n"
    )
    place = folder(name, version)
    unfinished = place.with_name(f"{place.name}.partial")
    if unfinished.exists():
        shutil.rmtree(place, ignore_errors=True)
        unfinished.unlink()
    data = _kubernetes_data(made, module, version) if name == "kubernetes" else []
    files.replace_folder(place, [made / program, *data], {MARK: mark})


def _kubernetes_data(made: Path, module: Path, version: str) -> list[Path]:
    """Write the provider's two data files from its module, with this version in them."""
    targets = [made / "schema.json", made / "terraform-mapping.json"]
    if not all(target.exists() for target in targets):
        source = module_folder(module, KUBERNETES) / "cmd" / "pulumi-resource-kubernetes"
        for target in targets:
            content = json.loads((source / target.name).read_bytes())
            if target.name == "schema.json":
                content["version"] = version
            partial = target.with_suffix(".partial")
            partial.write_text(json.dumps(content, separators=(",", ":")))
            partial.rename(target)
    return targets
