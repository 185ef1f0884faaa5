"""Measure the time from the request for a server until an SSH login; prints seconds as JSON.

Run it inside the lab: `python -m lab run -- python -m bench.login`.
"""

from __future__ import annotations

import json
import time

from bench.figures import end_cleanly
from bench.servers import Servers
from lab.image import BASE_NAME


def measure() -> float:
    """Create a server with a floating IP, log in, and delete it."""
    with Servers("bench-login", BASE_NAME) as servers:
        servers.create({"server": "lab.1c1g"})
        servers.wait_for_ssh("server")
        return time.monotonic() - servers.asked["server"]


if __name__ == "__main__":
    end_cleanly()
    print(json.dumps(measure()))
