"""The lab's command line."""

from __future__ import annotations

import subprocess
import sys

COMMAND = """
import sys, time, types
from lab import __main__ as lab

def run(_):
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)

sys.modules["slow"] = slow = types.ModuleType("slow", "Wait.")
slow.run, slow.configure = run, lambda parser: None
lab.COMMANDS["slow"] = "slow"
sys.exit(lab.main(["slow"]))
"""


def test_a_terminated_command_cleans_up() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as lab:
        assert lab.stdout is not None
        assert lab.stdout.readline() == "begun\n"
        lab.terminate()
        said, complaint = lab.communicate(timeout=30)
    assert lab.returncode == 130
    assert said == "cleaned up\n"
    assert "run the same command again to continue" in complaint
