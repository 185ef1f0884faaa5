"""Files with secrets, which others must not read."""

from pathlib import Path

from commands.private_file import write_private


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
