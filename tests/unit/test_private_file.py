"""Files with secrets, which others must not read."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands.private_file import private_folder, write_private

PROJECT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_folder_with_keys_leaves_with_a_process_that_is_told_to_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    program = (
        "import subprocess; from commands.private_file import private_folder, write_private\n"
        "with private_folder() as folder:\n"
        "    write_private(folder / 'key', 'key')\n"
        "    print('written', flush=True)\n"
        "    subprocess.run(['sleep', '60'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        # What those who run the tests ignore, such as nohup, is ignored by their children too.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
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
