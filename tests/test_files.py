"""Files are whole or absent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from advshift import files
from advshift.errors import InputError
from advshift.files import check_writable, write_atomically


def test_text_and_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.txt", "é\r\n")
    write_atomically(str(tmp_path / "b"), b"\x00\xff")
    assert (tmp_path / "a.txt").read_bytes() == b"\xc3\xa9\r\n"
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b"]


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new", "")
    (tmp_path / "usual").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_an_old_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o640)
    write_atomically(tmp_path / "old", "new")
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o640
    assert (tmp_path / "old").read_text() == "new"


def test_a_link_keeps_pointing_where_it_did(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


@pytest.mark.parametrize("stage", ["_write_through", "Path.replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(files if stage == "_write_through" else Path, stage.split(".")[-1], fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_is_not_a_regular_file_is_written_directly() -> None:
    check_writable("/dev/null")
    write_atomically("/dev/null", "gone")
    assert not Path("/dev/null").is_file()


def test_check_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("path", "reason"), [(".", "it is a folder"), ("none/a", "its folder does not exist")])
def test_check_names_the_reason(tmp_path: Path, path: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        check_writable(tmp_path / path)


def test_a_name_that_no_file_can_have_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="null byte"):
        check_writable("a\0b")
    with pytest.raises(InputError, match="too long"):
        check_writable(tmp_path / ("a" * 300))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_check_refuses_what_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0o400)
    with pytest.raises(InputError, match="read-only"):
        check_writable(tmp_path / "a")
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="choose another folder"):
        check_writable(tmp_path / "b")


def test_a_file_used_as_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(InputError, match="choose another name"):
        check_writable(tmp_path / "a" / "b")
