"""The Pulumi backend of the lab's stacks."""

from __future__ import annotations

from lab.paths import PROJECT, STATE

# One backend and one passphrase for every stack of the lab; `lab down` removes both.
STACKS = STATE / "stacks"
PASSPHRASE = STACKS / "passphrase"
# Configuration of the stack of `lab up`, in the checkout so that `pulumi` in `lab shell` finds it.
CONFIG_FILE = PROJECT / "Pulumi.lab.yaml"


def environment() -> dict[str, str]:
    """Environment variables that lead Pulumi to the lab's stacks; empty before the first one."""
    if not PASSPHRASE.exists():
        return {}
    return {
        "PULUMI_BACKEND_URL": f"file://{STACKS}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(PASSPHRASE),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # The program's enablePatchForce, which the lab's Kubernetes provider is too old to know.
        "PULUMI_K8S_ENABLE_PATCH_FORCE": "true",
    }
