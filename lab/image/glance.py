"""Upload images to the lab's Glance; an image that is there already is left unchanged."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lab.console import step
from lab.errors import LabError

# The property with the name of the image's file, which has the fingerprint in it.
_ORIGIN = "lab_image_file"


def register(name: str, file: Path, properties: Mapping[str, str]) -> None:
    """Upload `file` as the public image `name`; an older image of that name is deleted."""
    listed = json.loads(_openstack("image", "list", "--name", name, "--long", "-f", "json"))
    active = [image["ID"] for image in listed if image["Status"] == "active"]
    current = next((image for image in active if _origin(image) == file.name), None)
    if current is None:
        _upload(name, file, properties)
    # An interrupted run may have left some.
    for image in listed:
        if image["ID"] != current:
            _openstack("image", "delete", image["ID"])


def _upload(name: str, file: Path, properties: Mapping[str, str]) -> None:
    wanted = {
        "os_distro": "debian", "os_version": "13", "os_admin_user": "debian",
        _ORIGIN: file.name, **properties,
    }  # fmt: skip
    with step(f"upload the image {name} ({file.stat().st_size >> 20} MiB)"):
        _openstack(
            "image", "create", name, "--file", str(file), "--public",
            "--disk-format", file.suffix.removeprefix("."), "--container-format", "bare",
            *(word for key, value in wanted.items() for word in ("--property", f"{key}={value}")),
        )  # fmt: skip


def _origin(image: str) -> str:
    shown = json.loads(_openstack("image", "show", image, "-f", "json"))
    return str(shown["properties"].get(_ORIGIN, ""))


def _openstack(*words: str) -> str:
    """Run the `openstack` client inside the lab, as the cloud's administrator."""
    from lab.cloud import inside, namespace
    from lab.cloud.layout import ADMIN_CLOUD, VENV_BIN

    environment = {**inside.environment(), "OS_CLOUD": ADMIN_CLOUD}
    command = namespace.enter([str(VENV_BIN / "openstack"), *words], environment=environment)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise LabError(f"openstack {' '.join(words[:2])} failed: {result.stderr.strip()[-500:]}")
    return result.stdout
