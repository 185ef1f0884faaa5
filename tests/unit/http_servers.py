"""HTTP servers that live as long as a test."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Silent(http.server.BaseHTTPRequestHandler):
    """Writes nothing between the tests' dots."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def served(handler: type[Silent], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server with this handler."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        server.shutdown()
