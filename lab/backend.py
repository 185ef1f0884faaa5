"""Where the lab's Pulumi stacks are."""

from __future__ import annotations

from lab.paths import PROJECT, STATE

# One backend and one passphrase for every stack of the lab, gone with it.
STACKS = STATE / "stacks"
PASSPHRASE = STACKS / "passphrase"
# Of the stack of `lab up`: in `lab shell` it is used as any other.
CONFIG_FILE = PROJECT / "Pulumi.lab.yaml"


def environment() -> dict[str, str]:
    """Where Pulumi finds the lab's stacks; nothing before there is one."""
    if not PASSPHRASE.exists():
        return {}
    return {
        "PULUMI_BACKEND_URL": f"file://{STACKS}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(PASSPHRASE),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
