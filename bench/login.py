"""Measure the time from the request for a server until an SSH login; prints seconds as JSON.

`from_outside` runs it inside the lab.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from bench.figures import end_cleanly
from bench.servers import Servers
from lab.cloud import inside, namespace
from lab.image import BASE_NAME


def from_outside(image: str = BASE_NAME) -> float:
    """Measure with a server of this image, which the cloud has in its cache from then on."""
    command = [sys.executable, "-m", "bench.login", "--image", image]
    result = subprocess.run(
        namespace.enter(command, environment=inside.environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(json.loads(result.stdout))


def measure(image: str) -> float:
    """Create a server with a floating IP, log in, and delete it."""
    with Servers("bench-login", image) as servers:
        servers.create({"server": "lab.1c1g"})
        servers.wait_for_ssh("server")
        return time.monotonic() - servers.asked["server"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", required=True)
    end_cleanly()
    print(json.dumps(measure(parser.parse_args().image)))
