"""Files with secrets, which others must not read."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands.private_file import private_folder, write_private

PROJECT = Path(__file__).resolve().parents[2]
ENDINGS = [signal.SIGHUP, signal.SIGTERM]


def test_a_new_file_and_one_that_others_could_read_are_private(tmp_path: Path) -> None:
    new, known = tmp_path / "new", tmp_path / "known"
    known.write_text("older and longer than the key")
    known.chmod(0o644)
    for file in (new, known):
        write_private(file, "key")
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("key", 0o600)


def test_the_target_of_a_link_stays_as_it_is(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("theirs")
    link.symlink_to(target)
    write_private(link, "key")
    assert (target.read_text(), link.read_text()) == ("theirs", "key")


@contextmanager
def at_work(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a key in a folder, in this one."""
    program = (
        "import time; from commands.private_file import private_folder, write_private\n"
        "with private_folder() as folder:\n"
        "    write_private(folder / 'key', 'key')\n"
        "    print('written', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(folder)},
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        # What those who run the tests ignore, such as nohup, is ignored by their children too.
        preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in ENDINGS],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        yield process


def test_a_folder_with_keys_that_a_killed_process_left_leaves_with_the_next_one(
    tmp_path: Path,
) -> None:
    with at_work(tmp_path) as killed:
        [abandoned] = tmp_path.iterdir()
        killed.kill()
    with at_work(tmp_path) as first:
        [used] = {*tmp_path.iterdir()} - {abandoned}
        for folder in (abandoned, used):
            os.utime(folder, (0, 0))
        with at_work(tmp_path) as second:
            assert not abandoned.exists()
            assert (used / "key").exists()
            second.terminate()
        first.terminate()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", ENDINGS)
def test_a_folder_with_keys_leaves_with_a_process_that_is_told_to_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    with at_work(tmp_path) as process:
        assert len(list(tmp_path.rglob("key"))) == 1
        process.send_signal(number)
        assert process.wait(10) == 128 + number
    assert not list(tmp_path.iterdir())


def test_otherwise_signals_do_what_they_did() -> None:
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with private_folder() as folder:
            assert (folder.stat().st_mode & 0o777) == 0o700
            assert signal.getsignal(signal.SIGTERM) != before
            # As under nohup.
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == before
        assert not folder.exists()
    finally:
        signal.signal(signal.SIGHUP, hangup)
