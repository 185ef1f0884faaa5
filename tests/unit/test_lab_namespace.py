"""The process of a running lab, found again by later commands."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from lab.cloud import namespace


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "init.pid"
    monkeypatch.setattr(namespace, "INIT_PID", file)
    return file


def test_the_lab_is_found_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace.remember(os.getpid())
    before = psutil.boot_time()
    monkeypatch.setattr(psutil, "boot_time", lambda: before + 3600)
    assert namespace.running() == os.getpid()


def test_another_process_with_this_id_is_no_lab(place: Path) -> None:
    place.write_text(f"{os.getpid()} 1\n")
    assert namespace.running() == 0
    place.write_text("4194305 1\n")  # above the largest id
    assert namespace.running() == 0
