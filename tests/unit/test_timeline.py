"""The pictures of where the seconds of an update go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import programs, timeline
from bench.picture import draw
from bench.timeline import Span, bars, spans

URN = "urn:pulumi:demo::openstack-kubernetes::"
SERVER = f"{URN}openstack-kubernetes:Node$openstack:compute/instance:Instance::demo-worker-0"
JOIN = f"{URN}openstack-kubernetes:Node$command:remote:Command::demo-worker-0-join"
POOL = f"{URN}openstack-kubernetes:WorkerPool::demo-worker"


def event(kind: str, timestamp: int, urn: str, op: str = "create") -> str:
    return json.dumps({"timestamp": timestamp, kind: {"metadata": {"urn": urn, "op": op}}})


def events(folder: Path) -> Path:
    """A log of a server that takes 20 s and of a join of 10 s, between other events."""
    file = folder / "events"
    lines = [
        json.dumps({"timestamp": 90, "preludeEvent": {"config": {}}}),
        event("resourcePreEvent", 100, POOL),
        event("resourcePreEvent", 100, SERVER),
        event("resourcePreEvent", 101, f"{SERVER}-old", "same"),
        event("resOutputsEvent", 120, SERVER),
        event("resourcePreEvent", 120, JOIN),
        event("resOutputsEvent", 130, JOIN),
        event("resOutputsEvent", 131, POOL),
    ]
    file.write_text("\n".join(lines))
    return file


def test_each_part_of_an_update_has_its_time_since_the_beginning(tmp_path: Path) -> None:
    assert spans(events(tmp_path)) == [Span("servers", 0, 20), Span("nodes Ready", 20, 30)]


def test_the_picture_names_the_parts(tmp_path: Path) -> None:
    picture = tmp_path / "up.svg"
    draw("pulumi up", timeline.COLUMNS, bars(events(tmp_path)), picture)
    drawn = "".join(ElementTree.parse(picture).getroot().itertext())
    text = drawn.replace("\N{NO-BREAK SPACE}", " ")
    assert "nodes Ready" in text
    assert "0 to 30 s" in text
    assert "add-ons" not in text


def test_an_update_without_changes_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "events"
    file.write_text(event("resourcePreEvent", 1, SERVER, "same"))
    draw("pulumi up", timeline.COLUMNS, bars(file))
    assert capsys.readouterr().out == "nothing changed\n"


def test_a_program_is_busy_while_it_works(tmp_path: Path) -> None:
    script = tmp_path / "works.py"
    script.write_text("import time\ntime.sleep(0.5)\nwhile time.process_time() < 1: pass\n")
    with programs.Programs() as ran:
        subprocess.run([sys.executable, script], check=True)
    (bar,) = ran.bars()
    assert bar.cells[0].endswith(" works.py")
    assert float(bar.cells[1].removesuffix(" s")) > 0.5
    assert bar.busy[0][0] < bar.busy[-1][1]
