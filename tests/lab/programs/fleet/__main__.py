"""The outputs of a cluster that does not exist; tests/lab/test_fleet.py runs it."""

import json
import time
from pathlib import Path

import pulumi

config = pulumi.Config()
version = config.require("kubernetesVersion")
if version == "v1.38.0":
    raise pulumi.RunError(
        "the configuration cannot be used, 1 fault:\n  kubernetesVersion = v1.38.0"
    )
if size := config.get("size"):
    pulumi.Stash("machine", input=size)
# Until the test has seen what it wants.
while (busy := config.get("busy")) and Path(busy).exists():
    time.sleep(0.1)
pulumi.export("kubernetesVersion", version)
pulumi.export("version", "0.1.0")
pulumi.export("clusterId", "demo-1a2b3c4d")
# No one listens there.
pulumi.export("apiEndpoint", "https://127.0.0.1:1")
pulumi.export("immutableSettings", {"hostCidr": config.require("hostCidr"), "sshUser": "debian"})
pulumi.export("gateways", [])
pulumi.export("nodes", [])
pulumi.export("kubeconfig", pulumi.Output.secret(json.dumps({"current-context": "demo"})))
