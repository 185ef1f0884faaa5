"""A chart with an object of a CRD, as the add-ons install it; tests/lab/test_charts.py runs it."""

import pulumi
import pulumi_kubernetes as kubernetes

from addons import snapshots
from addons.installer import Installer
from components.destroy import protect
from config.load import load
from config.models.addons import AddonsSettings, Snapshots

config = pulumi.Config()
cluster = load(
    {
        "externalNetwork": "public",
        "allowedCidrs": ["203.0.113.0/24"],
        "image": "debian-13",
        "flavor": "m1.medium",
        "deletionProtection": config.require_bool("deletionProtection"),
    },
    "charts",
)
installer = Installer(
    name="charts",
    parent=pulumi.ComponentResource("tests:lab:Charts", "charts"),
    # In place of a cluster.
    provider=kubernetes.Provider("charts", render_yaml_to_directory=config.require("folder")),
    settings=AddonsSettings.model_validate({"chartDirectory": config.require("charts")}),
    with_secrets=False,
)
chart = snapshots.install(installer, Snapshots(enabled=True), after=[])
[objects] = installer.chart_objects
protect("charts", cluster, [chart], objects)
