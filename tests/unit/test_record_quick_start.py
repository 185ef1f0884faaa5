"""The recording of the quick start shows what real commands printed, and only if they succeeded."""

import json
import os
from pathlib import Path

import pytest

from docs.record_quick_start import COLUMNS, Recording, Typed


@pytest.fixture
def recording() -> Recording:
    return Recording(lambda command: ["sh", "-c", command], os.environ)


def test_a_recording_shows_the_command_and_its_output(recording: Recording, tmp_path: Path) -> None:
    recording.run(Typed(command="test -t 1 && tput cols && echo done"))
    cast = tmp_path / "a.cast"
    recording.write(cast)
    header, *events = map(json.loads, cast.read_text().splitlines())
    assert (header["version"], header["width"]) == (2, COLUMNS)
    shown = "".join(text for _, _, text in events)
    assert "test -t 1 && tput cols && echo done" in shown
    assert f"{COLUMNS}\r\ndone\r\n" in shown
    moments = [moment for moment, _, _ in events]
    assert moments == sorted(moments)


def test_a_long_wait_is_short_in_the_recording_and_says_so(recording: Recording) -> None:
    recording.run(Typed(command="echo a; sleep 1; echo b", at_most=0.5))
    [(a, _)] = [event for event in recording.events if event[1] == "a\r\n"]
    [(b, _)] = [event for event in recording.events if event[1] == "b\r\n"]
    assert 0.3 < b - a <= 0.5
    assert "# took 1 s" in recording.events[-1][1]


def test_a_command_that_fails_ends_the_recording(recording: Recording) -> None:
    with pytest.raises(RuntimeError, match="`echo no; false` ended with 1:\nno"):
        recording.run(Typed(command="echo no; false"))
