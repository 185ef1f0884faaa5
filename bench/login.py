"""From asking for a server to a login on it. Run inside the lab; prints seconds as JSON."""

from __future__ import annotations

import json
import time

from bench.figures import end_cleanly
from bench.servers import Servers
from lab.image import BASE_NAME


def measure() -> float:
    """One server with a floating IP, and gone again."""
    with Servers("bench-login", BASE_NAME) as servers:
        servers.create({"server": "lab.1c1g"})
        servers.wait_for_ssh("server")
        return time.monotonic() - servers.asked["server"]


if __name__ == "__main__":
    end_cleanly()
    print(json.dumps(measure()))
