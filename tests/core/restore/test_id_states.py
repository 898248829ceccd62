"""The states of documents are the same whether they lie in memory or in the file, and what their operations say."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyglass.restore.proof import id_states
from tallyglass.restore.proof.id_states import EXISTED, EXISTS, INSERTED, UPDATE_ONLY, IdStates, IdStore

KEYS = (b"\x10\x01", b"\x10\x02", b"\x12\x01", b"\x02a")
NEXT = {"": "iud", "i": "ud", "u": "ud", "d": "i"}
"""What can happen to a document after its last operation."""

Operations = Sequence[tuple[bytes, str]]


@st.composite
def operations(draw: st.DrawFn) -> Operations:
    last = dict.fromkeys(KEYS, "")
    found = []
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=20)):
        last[key] = draw(st.sampled_from(NEXT[last[key]]))
        found.append((key, last[key]))
    return found


def states(rows: Operations, in_memory: int) -> tuple[IdStore, IdStates]:
    store = IdStore(in_memory)
    store.new().touch(b"\x10\x01", "i")
    found = store.new()
    for place, (key, op) in enumerate(rows):
        found.touch(key, op, place)
    store.end()
    return store, found


def said(rows: Operations) -> dict[bytes, tuple[int, list[int]]]:
    """The state of each document, and the places of the updates of one that was not inserted since."""
    found = {}
    for key in {key for key, _ in rows}:
        ops = [(op, place) for place, (one, op) in enumerate(rows) if one == key]
        names = [op for op, _ in ops]
        only = names[0] == "u" and "i" not in names
        bits = EXISTS * (names[-1] != "d") | UPDATE_ONLY * only | EXISTED * (names[0] != "i")
        bits |= INSERTED * ("i" in names)
        found[key] = (bits, [place for op, place in ops if op == "u"] if only else [])
    return found


@given(operations(), st.integers(0, 5))
def test_a_state_says_what_happened_wherever_it_lies(rows: Operations, in_memory: int) -> None:
    store, found = states(rows, in_memory)
    wanted = said(rows)
    bits = {key: one for key, (one, _) in wanted.items()}
    assert dict(found.items()) == bits
    assert {key: found.get(key) for key in KEYS} == {key: bits.get(key) for key in KEYS}
    assert {key: one for key, one in found.of(KEYS[:2]).items() if key in KEYS[:2]} == {
        key: one for key, one in bits.items() if key in KEYS[:2]
    }
    there = {key for key, one in bits.items() if one & EXISTS}
    assert found.existing() == len(there)
    assert set(found.existing_of((b"\x10", b"\x12"))) == {key for key in there if key[:1] != b"\x02"}
    only = {key: places for key, (one, places) in wanted.items() if one & UPDATE_ONLY}
    assert sorted(found.update_only()) == sorted((key in there, places) for key, places in only.items())
    for key in sorted(only)[:1]:
        found.mark_in_backup(key)
        assert sorted(found.update_only()) == sorted((one in there, only[one]) for one in only if one != key)
    store.close()


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_documents_are_marked_in_groups(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(id_states, "_CHUNK", chunk)
    _, found = states([(key, "u") for key in KEYS], 1)
    for key in KEYS[:3]:
        found.mark_in_backup(key)
    assert list(found.update_only()) == [(True, [3])]


@pytest.mark.parametrize(("in_memory", "files"), [(3, False), (2, True)])
def test_the_file_is_made_where_memory_does_not_hold_them(in_memory: int, files: bool) -> None:
    store, _ = states([(key, "i") for key in KEYS[:2]], in_memory)
    assert (store.rows is not None) is files


def test_the_file_is_closed_in_whatever_order_its_objects_end() -> None:
    """Python 3.13 warns of a connection that is not."""

    def made() -> list[object]:
        store, _ = states([(b"a", "i")], 0)
        return [store, store.rows]

    def end_after_a_collection() -> None:
        held = made()
        # What is reached through a list first, the connection, is collected first from now on.
        gc.collect()
        assert len(held) == 2

    end_after_a_collection()
    gc.collect()
