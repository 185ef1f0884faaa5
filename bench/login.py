"""Measure the time from the request for a server until an SSH login; prints seconds as JSON.

`from_outside` runs it inside the lab.
"""

from __future__ import annotations

import argparse
import json
import time

from bench.figures import end_cleanly
from bench.inside import result_of
from bench.servers import Servers
from lab.image import BASE_NAME


def from_outside(image: str = BASE_NAME) -> float:
    """Measure with a server of this image, which the cloud has in its cache from then on."""
    return float(result_of("bench.login", "--image", image))


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
