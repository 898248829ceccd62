"""What a statement as typed, or as logged, says of the entries that it left."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Int64

from builders.incidents import incident
from tallyglass.errors import InputError
from tallyglass.oplog.entry.changes import Value, get
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, Incident
from tallyglass.restore.undo.evidence import (
    KnownStatement,
    as_options,
    compare_counts,
    is_same,
    logged_statement,
    read_evidence,
    statement_of,
)
from tallyglass.text import shell_quote


def stored(value: Any) -> Value:
    found = get(bson.encode({"v": value}), (b"v",))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("update", "constants", "computed", "always"),
    [
        ("{$set: {a: 1, 'm.b': 'x'}, $unset: {c: ''}}", {"a": 1, "m.b": "x", "c": None}, [], []),
        ("{$set: {a: 1}, $setOnInsert: {made: 1, 'm.0.n': 1}}", {"a": 1}, [], []),
        ("{$inc: {n: 1}, $mul: {q: 2}}", {}, ["n", "q"], ["n"]),
        ("{$inc: {a: 0, b: 0.5, 'm.0': 1}}", {}, ["a", "b", "m", "m.0"], []),
        ("{$rename: {a: 'm.b'}, $push: {t: 1}}", {}, ["a", "m.b", "t"], []),
        ("{$set: {'t.0': 1, 'm.1.k': 2}}", {"t.0": 1, "m.1.k": 2}, ["t", "m"], []),
        ("{$set: {'t.$[].k': 1, 'u.$[one]': 2, 'm.k.$[]': 3}}", {}, ["t", "u", "m.k"], []),
        ("{$set: {'0': 1}}", {"0": 1}, [], []),
        ("[{$set: {a: 1, m: {b: 'x'}}}, {$unset: ['c', 'm.d']}, {$unset: 'e'}]",
         {"a": 1, "m.b": "x", "c": None, "m.d": None, "e": None}, [], []),
        ("[{$set: {a: '$b', c: {$add: [1, 2]}, d: [1], e: {$literal: '$x'}}}]", {}, ["a", "c", "d", "e"], []),
        ("[{$set: {a: 1}}, {$addFields: {a: 2, b: 1}}]", {"b": 1}, ["a"], []),
        ("[{$set: {a: '$b'}}, {$set: {a: 2}}]", {}, ["a"], []),
        ("[{$set: {a: {$literal: 1, b: 2}}}]", {}, ["a"], []),
    ],
)  # fmt: skip
def test_what_a_statement_changes(
    update: str, constants: dict[str, Any], computed: list[str], always: list[str]
) -> None:
    def path(name: str) -> tuple[bytes, ...]:
        return tuple(name.encode().split(b"."))

    text = f"db.c.updateMany({{}}, {update})"
    values = {path(name): None if value is None else stored(value) for name, value in constants.items()}
    known = KnownStatement(values, frozenset(map(path, computed)), frozenset(map(path, always)), 5, text, "c")
    assert (read_evidence(text, 5), known.deletes) == (known, False)


def test_what_is_known_without_an_update() -> None:
    assert read_evidence("", None) is None
    assert read_evidence("", 5) == KnownStatement({}, count=5)
    text = "db.c.deleteMany({a: 1})"
    known = read_evidence(text, None)
    assert known == KnownStatement({}, text=text, collection="c")
    assert (known.deletes, KnownStatement({}, count=5).deletes) == (True, False)
    for nothing in ("{}", "{$setOnInsert: {a: 1}}", "[]"):
        with pytest.raises(InputError, match="changes nothing"):
            read_evidence(f"updateMany({{}}, {nothing})", 5)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True), (1, Int64(1), True), (1, True, False), (1, 2, False), (1, "1", False), ("a", "a", True),
        ({"a": [1]}, {"a": [1.0]}, True), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False), (None, None, True),
        (None, 1, False), (1, None, False),
    ],
)  # fmt: skip
def test_a_number_that_was_written_is_the_one_that_was_typed_by_its_value(one: Any, other: Any, same: bool) -> None:
    written, typed = (None if value is None else stored(value) for value in (one, other))
    assert is_same(written, typed) is same
    assert is_same((0, b""), typed) is False, "an array of which parts are changed"


TOO_FEW = "3 entries {} from a minute before to a minute after, and {} were reported: {}."
RAN, WRITTEN = "do what was run", "of this kind were written"


@pytest.mark.parametrize(
    ("found", "count", "text", "said"),
    [
        (3, 3, "text", []), (3, 3, "", []), (3, None, "text", []), (3, 2, "text", []),
        (0, None, "text", ["No entry from a minute before to a minute after does what was run."]),
        (3, 4, "text", [TOO_FEW.format(RAN, 4, "the rest is not there")]),
        (3, 4, "", [TOO_FEW.format(WRITTEN, 4, "the rest is not there")]),
        (3, 2, "", [TOO_FEW.format(WRITTEN, 2, "which of them are its own is not known")]),
    ],
)  # fmt: skip
def test_the_entries_are_compared_with_the_count(found: int, count: int | None, text: str, said: list[str]) -> None:
    assert list(compare_counts(found, KnownStatement({}, count=count, text=text))) == said


STATEMENT = "updateMany({n: 0}, {$set: {s: 'BAD'}})"


def by(**changes: Any) -> Incident:
    given = {"documents": 200, "statement": STATEMENT, "statements": 1} | changes
    return incident(1, 9, evidence=Authorship(Certainty.EXACT, (Candidate(**given),)))


@pytest.mark.parametrize(
    ("row", "known", "options"),
    [
        (None, ("", None), ""),
        (incident(1, 9), ("", None), ""),
        (incident(1, 9, evidence=Authorship(Certainty.NONE)), ("", None), ""),
        (by(), (STATEMENT, 200), f"--statement={shell_quote(STATEMENT)} --count=200"),
        (by(documents=None, statement="deleteMany({})"), ("deleteMany({})", None), "--statement='deleteMany({})'"),
        (by(server=True), ("", None), ""),
        (by(statements=2), ("", None), ""),
        (by(statements=0), ("", None), ""),
        (by(statement="updateMany({a: 1"), ("", 200), "--count=200"),
    ],
    ids=["no incident", "not compared", "not known", "one", "no count", "the server", "two", "none", "cut off"],
)
def test_what_the_server_logged_is_suggested(row: Incident | None, known: tuple[str, int | None], options: str) -> None:
    assert logged_statement(row) == known
    assert as_options(*known) == options


LONG = "x" * (1_000 - len('updateMany({}, {"$set": {"a": ""}})'))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, ""),
        ({"b": 1, "a": None, "m.c": "x"}, 'updateMany({}, {"$unset": {"a": ""}, "$set": {"b": 1, "m.c": "x"}})'),
        ({"m": {"n": Int64(5)}}, 'updateMany({}, {"$set": {"m": {"n": 5}}})'),
        ({"a": LONG}, f'updateMany({{}}, {{"$set": {{"a": "{LONG}"}}}})'),
        ({"a": LONG + "x"}, ""),
        ({"a": float("nan")}, 'updateMany({}, {"$set": {"a": {"$numberDouble": "NaN"}}})'),
        ({"a.0": 1}, 'updateMany({}, {"$set": {"a.0": 1}})'),
    ],
)
def test_values_are_written_as_a_statement_that_is_read_as_them(values: dict[str, Any], text: str) -> None:
    paths = {tuple(name.encode().split(b".")): value for name, value in values.items()}
    assert statement_of({path: None if value is None else stored(value) for path, value in paths.items()}) == text
