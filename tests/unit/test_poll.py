"""The lab tests' client of the API, without the lab: it must not take silence for success."""

from __future__ import annotations

import http.server
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.poll import Poll
from lab.until import until


class Ready(http.server.BaseHTTPRequestHandler):
    """Answers as /readyz does."""

    def do_GET(self) -> None:
        """Say that all is well."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def api() -> Iterator[http.server.HTTPServer]:
    """A server on loopback."""
    with http.server.HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(server: http.server.HTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_an_api_that_answers_is_never_silent_for_long(api: http.server.HTTPServer) -> None:
    with Poll(url(api), inside=True) as poll:
        time.sleep(1)
    assert poll.answered > 0
    assert poll.failed == 0
    assert poll.longest < 1


def test_a_silence_counts_although_it_does_not_end(api: http.server.HTTPServer) -> None:
    with Poll(url(api), inside=True) as poll:
        until(lambda: poll.answered > 0, "the first answer", 30)
        api.shutdown()
        api.server_close()
        time.sleep(1.5)
    assert poll.failed > 0
    assert poll.longest > 1


def test_no_answer_at_all_is_a_failure(api: http.server.HTTPServer) -> None:
    api.shutdown()
    api.server_close()
    with pytest.raises(AssertionError, match="answered no poll"), Poll(url(api), inside=True):
        time.sleep(0.5)


def test_a_client_that_cannot_ask_is_a_failure(
    api: http.server.HTTPServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in ("sh", "sleep"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="is curl installed"), Poll(url(api), inside=True):
        time.sleep(0.5)
