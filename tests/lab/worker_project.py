"""Makes a project for the clusters of a worker: `python -m tests.lab.worker_project FILE`.

It runs inside the lab, and writes a `clouds.yaml` in which the lab's own entry leads to the
project, which stays until the lab goes down.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from commands.private_file import write_private
from lab.cloud.layout import CLOUD, CLOUDS_YAML
from tests.lab.tenant import Tenant


def main() -> None:
    """Write the file."""
    file = Path(sys.argv[1])
    tenant = Tenant(file.parent)
    [entry] = yaml.safe_load(tenant.clouds_yaml.read_text())["clouds"].values()
    document = yaml.safe_load(CLOUDS_YAML.read_text())
    document["clouds"][CLOUD]["auth"] = entry["auth"]
    write_private(file, yaml.safe_dump(document))


if __name__ == "__main__":
    main()
