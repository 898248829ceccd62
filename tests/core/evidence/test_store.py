"""Evidence on disk: only what names who wrote, for its owner alone, bounded in bytes and time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.evidence import MILLIS, command, login, metadata, remove, statements
from tallyglass.errors import InputError
from tallyglass.evidence.book import Book
from tallyglass.evidence.log_files import read_files
from tallyglass.evidence.store import PARTS, EvidenceFolder


def held(folder: EvidenceFolder) -> int:
    return sum(path.stat().st_size for path in folder.path.iterdir())


def test_only_evidence_is_kept_and_read_again_as_a_log(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "kept", keeps=True)
    find = command(30, find="orders").replace('"delete":"orders",', "")
    taken = find.replace('"find":"orders"', '"findandmodify":"orders","remove":true')
    taken = taken.replace('"ns"', '"ndeleted":1,"ns"')
    folder.write("a:1", [metadata(), login(), find, "no line", remove(20, 5)])
    folder.write("a:1", [taken, remove(40, 6)])
    folder.write("b/../:2", [remove(60, 7, ctx="conn8")])
    assert sorted(folder.by_member()) == ["a_1", "b_..__2"]
    assert {path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {0o600}
    assert folder.path.stat().st_mode & 0o777 == 0o700
    book = Book()
    read_files(book, folder.by_member()["a_1"])
    assert [(one.documents, one.client.user) for one in statements(book)] == [(5, "alice@admin"), (6, "alice@admin")]
    assert len(book.statements("shop.$cmd", "d", 0, MILLIS * 2)) == 1
    assert book.tally.lines == 5


def test_a_folder_that_is_only_read_stays_as_it_is(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "kept")
    folder.write("a:1", [metadata(), login(), remove(20, 5)])
    assert folder.by_member() == {}


def test_a_login_in_one_file_names_the_statements_of_the_next(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "kept", keeps=True)
    folder.write("a:1", [metadata(), login()])
    (first,) = folder.path.iterdir()
    first.rename(folder.path / "a_1_0000000001.log")
    folder.write("a:1", [remove(20, 5).replace('"remote":', '"was":')])
    book = Book()
    assert len(read_files(book, folder.by_member()["a_1"])) == 1
    assert [one.client.user for one in statements(book)] == ["alice@admin"]


def test_the_oldest_go_when_the_folder_is_full(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "kept", keeps=True, keep_bytes=64_000)
    (tmp_path / "kept" / "notes.txt").write_text("mine")
    most = 0
    for n in range(400):
        folder.write("a:1", [remove(n % 1000, 1000 + n)])
        most = max(most, held(folder))
    assert 64_000 * (PARTS - 2) / PARTS < most <= 64_000
    book = Book()
    read_files(book, folder.by_member()["a_1"])
    counts = [one.documents for one in statements(book)]
    assert counts == list(range(1400 - len(counts), 1400)), "the newest are there, without a gap"
    assert (tmp_path / "kept" / "notes.txt").exists()


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "kept", keeps=True)
    old = folder.path / "a_1_0000498000.log"
    old.write_text(remove(20, 5))
    os.utime(old, (1, 1))
    folder.write("a:1", [remove(40, 6)])
    assert not old.exists()


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o701])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "who wrote"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(InputError, match="Others may read") as refused:
        EvidenceFolder(folder)
    assert refused.value.advice == f"chmod 700 '{folder}'"
    (folder / "a_1_0000498000.log").touch()
    with pytest.raises(InputError) as refused:
        EvidenceFolder(folder)
    assert refused.value.advice == f"chmod 700 '{folder}'"
    (folder / "of somebody else").touch()
    with pytest.raises(InputError) as refused:
        EvidenceFolder(folder)
    assert refused.value.advice == "Name a folder for the evidence alone."


def test_a_path_that_is_no_folder_and_a_link_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be used"):
        EvidenceFolder(tmp_path / "file")
    folder = EvidenceFolder(tmp_path / "kept", keeps=True)
    folder.write("a:1", [remove(20, 5)])
    (made,) = folder.path.iterdir()
    made.unlink()
    made.symlink_to(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be used"):
        folder.write("a:1", [remove(20, 5)])
    assert (tmp_path / "file").read_text() == ""
