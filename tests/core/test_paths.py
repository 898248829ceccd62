"""Paths as they are typed, and files that appear whole at what they name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.whole_file import check_writable, write_whole


def test_a_home_folder_that_is_not_there_stays_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert absolute_path("~/a") == Path("/home/me/a")
    assert absolute_path("~no such user/a") == tmp_path / "~no such user" / "a"


def test_a_relative_path_in_a_folder_that_was_removed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert absolute_path("/a") == Path("/a")
    with pytest.raises(InputError, match="was removed"):
        absolute_path("a")


def test_a_link_is_followed_and_a_pipe_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", "new", 0o700)
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "file").read_text(), (tmp_path / "file").stat().st_mode & 0o777) == ("new", 0o700)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()
    assert os.read(reader, 100) == b"text"
    os.close(reader)


def test_what_cannot_be_written_leaves_nothing_and_is_known_before(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "file", "\udcff")
    assert list(tmp_path.iterdir()) == []
    check_writable(tmp_path / "file")
    (tmp_path / "text").touch()
    for path in (tmp_path, tmp_path / "none" / "file", tmp_path / "text" / "file", tmp_path / ("long" * 100)):
        with pytest.raises(InputError):
            check_writable(path)
