"""The lab tests' client of the API, without the lab: it must not take silence for success."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.poll import Poll
from lab.until import until
from tests.unit.http_servers import Silent, served


class Ready(Silent):
    """Answers as /readyz does."""

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(200)
        self.end_headers()


def test_an_api_that_answers_is_never_silent_for_long() -> None:
    began = time.monotonic()
    with served(Ready) as url, Poll(url, inside=True) as poll:
        until(lambda: poll.answered > 5, "answers", 30)
    assert poll.failed == 0
    assert poll.longest < (time.monotonic() - began) / 2


def test_a_silence_counts_although_it_does_not_end() -> None:
    with ExitStack() as server:
        url = server.enter_context(served(Ready))
        with Poll(url, inside=True) as poll:
            until(lambda: poll.answered > 0, "the first answer", 30)
            server.close()
            time.sleep(1.5)
    assert poll.failed > 0
    assert poll.longest > 1


def test_no_answer_at_all_is_a_failure() -> None:
    with served(Ready) as url:
        pass
    with pytest.raises(AssertionError, match="answered no poll"), Poll(url, inside=True):
        time.sleep(0.5)


def test_a_client_that_cannot_ask_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in ("sh", "sleep"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        served(Ready) as url,
        pytest.raises(AssertionError, match="is curl installed"),
        Poll(url, inside=True),
    ):
        time.sleep(0.5)
