"""Every field of every row of some worlds stays as it was approved: see ``corpus/oplog_lists.py``."""

from __future__ import annotations

import pytest

from corpus.oplog_lists import LISTS, lists


@pytest.mark.long
def test_lists_of_some_worlds_are_as_they_were_approved() -> None:
    found, approved = "\n".join(lists()).split("\n"), LISTS.read_text().split("\n")
    differing = [(now, before) for now, before in zip(found, approved, strict=False) if now != before]
    assert differing[:3] == []
    assert len(found) == len(approved)
