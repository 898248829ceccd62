"""What a person types becomes a filter; what the filter wants is found in the bytes."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Binary, Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp

from hostile.samples import TEXTS
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.entry.identity import candidates
from tallyglass.oplog.entry.row import row
from tallyglass.oplog.filter.compile import CompiledFilter, EntrySelector
from tallyglass.oplog.filter.query import OplogFilter, words_for
from tallyglass.oplog.read.collect import Collector
from tallyglass.oplog.read.notes import gap
from tallyglass.oplog.read.stream import Gap
from tallyglass.oplog.snapshot import RowKind

OID = ObjectId("0123456789abcdef01234567")
SESSION = {"lsid": {"id": Binary(b"s" * 16, 4), "uid": b"\0" * 32}, "txnNumber": Int64(4)}


def entry(op: str, ns: str, o: dict[str, Any], o2: dict[str, Any] | None = None, **first: Any) -> bytes:
    body = first | {"op": op, "ns": ns, "o": o} | ({"o2": o2} if o2 else {})
    return bson.encode(body | {"ts": Timestamp(1_000, 5), "t": Int64(1), "v": Int64(2)})


ENTRIES = {
    "insert": entry("i", "shop.orders", {"_id": 42, "note": "Red Shoes", "from": "Łódź", "n": 7}),
    "with session": entry("i", "shop.orders", {"_id": OID}, {"_id": OID}, **SESSION, stmtId=0),
    "update": entry("u", "shop.lines", {"$v": 2, "diff": {"u": {"n": Int64(7)}}}, {"_id": "42"}),
    "delete": entry("d", "shop.orders", {"_id": 42.0}),
    "drop": entry("c", "shop.$cmd", {"drop": "orders"}),
    "rename": entry("c", "shop.$cmd", {"renameCollection": "shop.a", "to": "shop.orders", "dropTarget": False}),
    "transaction": entry(
        "c", "admin.$cmd", {"applyOps": [
            {"op": "i", "ns": "shop.orders", "o": {"_id": 1}},
            {"op": "d", "ns": "crm.people", "o": {"_id": OID}},
        ]}, **SESSION
    ),
    "no-op": entry("n", "", {"msg": "periodic noop"}),
    "odd name": entry("i", "shop.line\nfeed", {"_id": uuid.UUID(int=5).bytes}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "insert|with session|update|delete|drop|rename|transaction|odd name"),
        ("noops", "insert|with session|update|delete|drop|rename|transaction|no-op|odd name"),
        ("ns:shop.orders", "insert|with session|delete|drop|rename|transaction"),
        ("ns:shop.*", "insert|with session|update|delete|drop|rename|transaction|odd name"),
        ("ns:shop.* ns:!*.orders", "update|rename|odd name"),
        ("ns:crm.people,shop.lines", "update|transaction"),
        ("ns:shop.line?feed", "odd name"),
        ("op:i", "insert|with session|transaction|odd name"),
        ("op:d", "delete|transaction"),
        ("op:c", "drop|rename|transaction"),
        ("!op:iud", "drop|rename"),
        ("op:n", "no-op"),
        ("id:42", "insert|update|delete"),
        ('id:"42"', "update"),
        (f"id:{OID}", "with session|transaction"),
        ('id:{"$numberDecimal":"x"}', ""),
        ('id:{"$numberLong":"9223372036854775808"}', ""),
        ("destructive", "delete|drop|transaction"),
        ("destructive ns:shop.*", "delete|drop"),
        ("red shoes", "insert"),
        ("łÓDŹ", "insert"),
        ("!shoes op:i", "with session|transaction|odd name"),
        ("7", "insert|update"),
        (str(OID), "with session|transaction"),
        ("/sho[ex]s/", "insert"),
        ("since:Timestamp(1000,5) op:d ns:shop.*", "delete"),
        ("since:Timestamp(1000,6)", ""),
        ("until:Timestamp(1000,5)", ""),
        (f"txn:{(b's' * 16).hex()}:4", "with session|transaction"),
        ("ns:shop.ord.*", ""),
    ],
)
def test_what_a_filter_wants(text: str, wanted: str) -> None:
    matcher = CompiledFilter(OplogFilter.parse(text))
    found = [name for name, raw in ENTRIES.items() if matcher.wants(raw)]
    assert "|".join(found) == wanted
    collector = Collector(OplogFilter.parse(text), 100)
    collector.add(b"".join(ENTRIES.values()))
    assert [shown.raw for shown in collector.rows(None)[0]] == [ENTRIES[name] for name in found]
    assert (collector.seen, collector.matched) == (len(ENTRIES), len(found))


@pytest.mark.parametrize(
    "text",
    [
        "op:x", "ns:", "id:", "!id:4", "since:yesterday", "/(/", "x" * 201, 'id:"a', "txn:5", "txn:ab:²",
        f"txn:ab:{2**63}", "\udcff", "id:\udcff", "ns:\udcff", "ns:a\\u{0}*", 'id:"\\ud800"',
    ],
)  # fmt: skip
def test_an_invalid_filter_is_one_clear_sentence(text: str) -> None:
    with pytest.raises(InputError):
        OplogFilter.parse(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("ns:a.* op:dx text", 11),
        ("ns:a.* since:5:5:5", 18),
        ("a since:2026-13-01 op:d", 13),
        ("a ns: b", 5),
        ('b id:"a', 5),
    ],
)
def test_an_invalid_filter_is_refused_at_the_place_of_the_error(text: str, position: int) -> None:
    with pytest.raises(InputError) as refusal:
        OplogFilter.parse(text)
    assert refusal.value.position == position


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("", {}), ("noops some text since:Timestamp(5,0) until:now", {}), ("destructive", {"op": {"$in": ["d", "c"]}}),
        ("op:iu", {"op": {"$in": ["c", "i", "u"]}}), ("!op:u", {"op": {"$nin": ["u"]}}), ("!op:c", {}),
        ("op:i op:!du", {"$and": [{"op": {"$in": ["c", "i"]}}, {"op": {"$nin": ["d", "u"]}}]}),
        ("txn:ab:7", {"txnNumber": 7}), ("ns:a.b", {"$or": [{"ns": {"$in": ["a.b"]}}, {"op": "c"}]}),
        ("ns:a.b,c.* !ns:a.?", {"$and": [
            {"$or": [{"ns": {"$in": ["a.b", Regex("^c\\..*$", "s")]}}, {"op": "c"}]},
            {"$or": [{"ns": {"$nin": [Regex("^a\\..$", "s")]}}, {"op": "c"}]},
        ]}),
        ("id:7", {"$or": [{"o._id": {"$in": [Int64(7), "7"]}}, {"o2._id": {"$in": [Int64(7), "7"]}},
                          {"op": "c", "o.applyOps": {"$exists": True}}]}),
        (f"ns:{'x' * 3}", {"$or": [{"ns": {"$in": ["xxx"]}}, {"op": "c"}]}),
    ],
)  # fmt: skip
def test_the_server_is_asked_for_what_it_can_tell(text: str, asked: dict[str, Any]) -> None:
    wanted = OplogFilter.parse(text)
    assert wanted.on_server() == asked
    assert wanted.narrow is bool(asked or wanted.text or wanted.ops)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("op:ixz", "'xz' is not an operation. i is an insert, u an update, d a delete, c a command, n a no-op."),
        ("ns:", "'ns:' lacks a value. Write such as ns:shop.* or op:d."),
        ("!id:4", "An id cannot be left out. Write id:VALUE to see the history of one document."),
        ("!since:5", "What since: names cannot be left out. Write it without the !."),
        ("txn:5", "'5' is not a transaction. Write it as session:number."), ("txn:a:" + "9" * 20, None),
        (f"txn:a:{2**63 - 1}", ""), (f"txn:a:{2**63}", None), ("txn:a:", None), ("x" * 200, ""),
        ("x" * 201, "The text to look for is longer than 200 characters."), ("/(/", None), ("//", ""), ("/(", ""),
        ("!/(/", None), ("/a", ""), ("a:b c:d", ""), ("ns:a,,b", ""),
        ('a "b', "A quote is not closed. Write the second quote, or leave both out."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_sentence(text: str, error: str | None) -> None:
    if error == "":
        OplogFilter.parse(text)
        return
    with pytest.raises(InputError) as refused:
        OplogFilter.parse(text)
    assert error is None or str(refused.value) == error


def test_the_words_of_a_filter_are_read_into_its_parts() -> None:
    text = 'ns:"a b.c",d.* !ns:x op:in !op:d id:"q w" since:Timestamp(5,0) until:Timestamp(9,0) destructive txn:ab:4'
    assert OplogFilter.parse(f'{text} two "words here" k:v !k:v') == OplogFilter(
        Ts(5, 0), Ts(9, 0), ("a b.c", "d.*", "!x"), frozenset({"i", "n", "!d"}), '"q w"', "two words here k:v !k:v",
        destructive=True, noops=True, transaction="ab:4",
    )  # fmt: skip
    assert not OplogFilter.parse("!op:n").noops
    assert OplogFilter.parse("noops !op:n op:d").noops


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("op:c ns:crm.*", "transaction"), ("op:dc", "delete|drop|rename|transaction"),
        ("op:d !op:c", "delete"), ("op:c destructive", "drop|transaction"), ("op:u ns:shop.*", "update"),
        ("op:i !ns:shop.*", ""), ("noops op:n", "no-op"), ("!op:n", "insert|with session|update|delete|drop|rename|"
         "transaction|odd name"), ("op:i destructive", ""), ("ns:shop", ""), ("ns:nothing.*", ""),
        ("op:c !ns:shop.*", "transaction"), ("ns:shop.a", "rename"), ("!ns:shop.a", "insert|with session|update|delete|"
         "drop|rename|transaction|odd name"), ("op:c id:1", "transaction"), ("op:u id:1", ""),
        ("PEOPLE", "transaction"),
        ("orders", "insert|with session|delete|drop|rename|transaction"), ("/^crm/", ""), ("!/shop/", ""),
        ("!/shop/ noops", "no-op"),
        (f"!{OID}", "insert|update|delete|drop|rename|odd name"), ("$v", "update"), ("noops periodic", "no-op"),
        (f"txn:{(b's' * 16).hex()}:5", ""), (f"txn:{(b't' * 16).hex()}:4", ""),
        ("until:Timestamp(1001,0)", "insert|with session|update|"
         "delete|drop|rename|transaction|odd name"), ("since:Timestamp(1001,0)", ""),
        ("until:Timestamp(1000,6) op:u", "update"),
    ],
)  # fmt: skip
def test_what_a_filter_of_several_words_wants(text: str, wanted: str) -> None:
    test_what_a_filter_wants(text, wanted)


IDS: list[Any] = [
    "", "42", "-", "true", "a b", 'q"uote', "b\\s", "{", "[1]", "ünï", "nan", "1e5", "inf", "!x", str(OID), "a" * 100,
    1, Int64(42), 1.5, -3, float("nan"), 1e5, float("inf"), -(2**63), 2**31, True, None, OID, MinKey(),
    Binary(b"u" * 16, 4), Binary(b"v" * 16, 3), Binary(b"bytes", 5), b"", datetime(2026, 1, 1, tzinfo=UTC),
    datetime(1960, 1, 1, 0, 0, 0, 5_000, UTC), Timestamp(5, 6), Decimal128("12.50"), Decimal128("NaN"),
    Decimal128("-Infinity"), Decimal128("1E+6000"), {"a": 7, "b": [1, "x", None, 2.5]},
    {"b": [1, "x", None, 2.5], "a": 7}, {"a": True}, {"a": b"x"}, {"a": Decimal128("9")}, {"a": Regex("x", "i")}, {},
]  # fmt: skip
"""Values of which no two are equal to the server."""


@pytest.mark.parametrize("place", range(len(IDS)))
def test_the_id_of_a_row_leads_back_to_its_document_and_no_other(place: int) -> None:
    entries = [entry("d", "a.b", {"_id": other}) for other in IDS]
    shown = row(entries[place])
    wanted = OplogFilter.parse(words_for(shown.ns, shown.id))
    collector = Collector(wanted, 100)
    collector.add(b"".join(entries))
    found = [n for n, raw in enumerate(entries) if CompiledFilter(wanted).wants(raw)]
    assert [one.raw for one in collector.rows(None)[0]] == [entries[n] for n in found]
    # What is not in quotes may be the string as well.
    assert [n for n in found if not isinstance(IDS[n], str) or isinstance(IDS[place], str)] == [place], shown.id
    assert not isinstance(IDS[place], (dict, bytes)) or found == [place]


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("5", [5, Int64(5), 5.0, Decimal128("5"), Decimal128("5.00"), Decimal128("50E-1")]),
        ('{"$numberDecimal": "5.0"}', [5, Int64(5), 5.0, Decimal128("5")]), ("2.5", [2.5, Decimal128("2.50")]),
        ('{"a": 5, "b": [1]}', [{"a": Int64(5), "b": [1.0]}, {"a": Decimal128("5"), "b": [Int64(1)]}]),
    ],
)  # fmt: skip
def test_an_id_is_found_whatever_type_its_numbers_have(text: str, others: list[Any]) -> None:
    wanted = OplogFilter(id=text)
    collector, unlike = Collector(wanted, 100), [6, 5.5, True, {"a": 5}, {"b": [1], "a": 5}, {"a": 5, "b": 1}, [5, [1]]]
    for found, id_ in [(True, one) for one in others] + [(False, one) for one in unlike]:
        raw = entry("u", "a.b", {"$v": 2, "diff": {"u": {"n": 1}}}, {"_id": id_})
        assert CompiledFilter(wanted).wants(raw) is found, id_
        collector.add(raw)
    assert collector.matched == len(others)


def test_relative_times_count_from_the_moment_that_is_given() -> None:
    moment = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
    seconds = int(moment.timestamp())
    found = OplogFilter.parse("since:now-2h until:-5m", moment)
    assert found == OplogFilter(since=Ts(seconds - 7_200, 0), until=Ts(seconds - 300, 0))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("42", [Int64(42), "42"]), (" 42 ", [Int64(42), "42"]), ("-5", [Int64(-5), "-5"]), ('"42"', ["42"]),
        ('"a', ['"a']), (str(2**63 - 1), [Int64(2**63 - 1), str(2**63 - 1)]), (str(2**63), [str(2**63)]),
        (str(-(2**63)), [Int64(-(2**63)), str(-(2**63))]), (str(-(2**63) - 1), [str(-(2**63) - 1)]),
        ("1" * 20, [float("1" * 20), "1" * 20]), ("1.5", [1.5, "1.5"]), ("true", [True, "true"]),
        ("null", [None, "null"]),
        (str(OID), [OID, str(OID)]), ("a" * 23, ["a" * 23]), ("a" * 25, ["a" * 25]), ("2026-99-01", ["2026-99-01"]),
        ("2026-01-01", [datetime.fromisoformat("2026-01-01"), "2026-01-01"]), ("abc", ["abc"]), ("[1]", [[1], "[1]"]),
        ('{"a":1}', [{"a": 1}, '{"a":1}']), ("{", ["{"]), ("\\u{202e}", ["\u202e"]), ('"\\u{202e}"', ["\u202e"]),
        ('{"$binary":{"hex":"6162","subType":"05"}}',
         [Binary(b"ab", 5), '{"$binary":{"hex":"6162","subType":"05"}}']),
        (str(uuid.UUID(int=5)),
         [Binary(uuid.UUID(int=5).bytes, 4), Binary(uuid.UUID(int=5).bytes, 3), str(uuid.UUID(int=5))]),
    ],
)  # fmt: skip
def test_a_typed_id_may_stand_for_several_values(text: str, values: list[Any]) -> None:
    assert [(type(value), value) for value in candidates(text)] == [(type(value), value) for value in values]


ODD = [text.replace("\0", "") for text in TEXTS.values() if len(text) < 40]


@pytest.mark.parametrize("text", ["!txn:ab:5", "txn:!ab:5", "!since:now-1h", "until:!now-1h"])
def test_what_cannot_be_left_out_is_not_looked_for_instead(text: str) -> None:
    with pytest.raises(InputError, match="cannot be left out"):
        OplogFilter.parse(text)


@pytest.mark.parametrize("blank", ["", "a b"])
def test_a_row_leads_to_its_own_document_and_namespace_whatever_they_are_called(blank: str) -> None:
    entries = [entry("i", f"shop.{text}{blank}", {"_id": {"of": text}}) for text in ODD]
    entries += [entry("i", f"shop.{text}{blank}", {"_id": text + blank}) for text in ODD]
    for raw, shown in [(raw, row(raw)) for raw in entries]:
        history = CompiledFilter(OplogFilter.parse(words_for(shown.ns, shown.id)))
        assert [other for other in entries if history.wants(other)] == [raw]
        namespace = CompiledFilter(OplogFilter.parse(words_for(shown.ns)))
        assert [row(other).ns for other in entries if namespace.wants(other)] == [shown.ns] * 2


def test_a_document_whose_id_is_shown_cut_is_not_looked_for_by_a_part_of_it() -> None:
    with pytest.raises(InputError, match="too long"):
        words_for("a.b", row(entry("i", "a.b", {"_id": "x" * 200})).id)


def test_what_is_not_readable_is_wanted_whatever_is_asked_for() -> None:
    wanted, damaged = OplogFilter.parse("ns:crm.people"), ENTRIES["insert"][:-3]
    assert CompiledFilter(wanted).wants(damaged)
    assert EntrySelector(wanted).select(b"".join(ENTRIES.values()) + damaged) == [ENTRIES["transaction"], damaged]


def test_the_newest_rows_stay_and_the_others_are_counted() -> None:
    collector = Collector(OplogFilter(), 10)
    for n in range(25):
        collector.add(entry("i", "a.b", {"_id": n}))
    rows, dropped = collector.rows(Ts(999, 0))
    assert ([shown.id for shown in rows], dropped) == ([str(n) for n in range(15, 25)], 15)
    assert {shown.majority for shown in rows} == {False}
    assert collector.rows(None) == ((), 0)


def test_a_gap_stays_in_its_place_while_entries_make_way() -> None:
    collector = Collector(OplogFilter(), 5)
    collector.add(entry("i", "a.b", {"_id": "before"}))
    collector.insert(gap(Gap(Ts(900, 1), Ts(1_000, 5))))
    for n in range(20):
        collector.add(entry("i", "a.b", {"_id": n}))
    rows, dropped = collector.rows(None)
    assert ([shown.kind for shown in rows], dropped) == ([RowKind.GAP, *[RowKind.ENTRY] * 4], 17)
    assert [shown.id for shown in rows[1:]] == ["16", "17", "18", "19"]
    assert "up to 1 min 40 s" in rows[0].what


def test_a_transaction_of_several_entries_is_one_row() -> None:
    def part(n: int, flags: dict[str, Any], previous: Ts) -> bytes:
        inner = [{"op": "i", "ns": "shop.orders" if n == 1 else "crm.x", "o": {"_id": k}} for k in range(10)]
        prev = {"ts": Timestamp(*previous), "t": Int64(1)}
        return entry("c", "admin.$cmd", {"applyOps": inner} | flags, **SESSION, prevOpTime=prev)

    parts = [
        part(1, {"partialTxn": True}, Ts(0, 0)),
        part(2, {"partialTxn": True}, Ts(1, 1)),
        part(3, {"count": Int64(30)}, Ts(1, 2)),
    ]
    collector = Collector(OplogFilter.parse("ns:shop.*"), 100)
    collector.add(b"".join(parts))
    (shown,) = collector.rows(None)[0]
    assert (shown.what, shown.documents, shown.raw) == ("transaction of 30 in 3 entries", 30, parts[-1])


def test_rates_are_over_the_oplogs_own_time() -> None:
    collector = Collector(OplogFilter(), 10)

    def at(seconds: int, op: str) -> bytes:
        return bson.encode({"op": op, "ns": "a.b", "o": {"_id": 1}, "ts": Timestamp(seconds, 1), "v": 2})

    collector.add(b"".join(at(10_000 + n, "i") for n in range(300)) + b"".join(at(10_299, "d") for _ in range(60)))
    (minute,) = collector.rates.over(60, 10_299)
    (five,) = collector.rates.over(300, 10_299)
    assert (minute.ns, minute.inserts, minute.deletes) == ("a.b", 1.0, 1.0)
    assert (five.inserts, five.deletes) == (1.0, 0.2)
    assert collector.rates.over(60, 10_500) == ()


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 12.5, -0.001])
def test_a_number_is_found_whatever_its_size_and_type(number: float) -> None:
    stored = [number] if isinstance(number, float) else [Int64(number), *[float(number)] * (abs(number) < 2**53)]
    for value in [*stored, *[int(number)] * (-(2**31) <= number < 2**31 and number == int(number))]:
        raw = bson.encode({"op": "i", "ns": "a.b", "o": {"_id": value, "n": [{"m": value}]}})
        others = [bson.encode({"op": "i", "ns": "a.b", "o": {"_id": n, "n": n}}) for n in (Int64(1), 7.25, True)]
        for wanted in (OplogFilter(id=f"{number}"), OplogFilter(text=f"{number}")):
            collector = Collector(wanted, 9)
            collector.add(b"".join([raw, *others]))
            assert [one.raw for one in collector.rows(None)[0]] == [raw]
            assert [CompiledFilter(wanted).wants(other) for other in (raw, *others)] == [True, False, False, False]


def test_who_asks_for_commands_gets_the_writes_inside_them() -> None:
    inner = {"op": "i", "ns": "a.b", "o": {"_id": 1}}
    held = bson.encode({"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [inner]}})
    found = CompiledFilter(OplogFilter.parse("op:c ns:a.b"))
    assert found.wants(held)
    assert not found.wants(bson.encode(inner))
    assert not CompiledFilter(OplogFilter.parse("op:c ns:a.c")).wants(held)


@pytest.mark.parametrize(
    "expression",
    [
        "(a+)+b", "(a*)*", "(a|aa)+b", "(a|.)*b", "(?:x?y?)*z", "(\\w+\\s?)*!", "((ab)+c?){4,}", "(a+){4}",
        "(?=(a+)+b)c", "(a)?(?(1)(b+)+|c)", "(a+?)*?b", "(|a)+b", "(a{1,9}){2,9}", "(A|a1)+", "(?P<x>(a+)+)",
        "((?>a)|ab)+", "x(?!(b+)+)",
    ],
)  # fmt: skip
def test_an_expression_that_may_be_tried_without_end_is_refused(expression: str) -> None:
    for text in (f"/{expression}/", f"!/{expression}/"):
        with pytest.raises(InputError, match="may be tried without end") as refused:
            OplogFilter.parse(text)
        assert refused.value.advice == "Write it without a repeat within a repeat, such as (a+)*."


@pytest.mark.parametrize(
    "expression",
    [
        "a+b*c?", "(ab)+c", "(a|b)+c", "(?:cat|dog)*", "(a+)?b", "(\\d+\\.){3}\\d+", "(?:a{3})*", "a.*b.*c", "(?>a+b)+",
        "[a-z]+@[a-z.]+", "(a|b|cd)(e|ef)", "(?:ab|cd){2,}", "(a)?(?(1)b+|c)", "(?!a+)b",
    ],
)  # fmt: skip
def test_an_expression_that_has_an_end_is_not(expression: str) -> None:
    assert OplogFilter.parse(f"/{expression}/").text == f"/{expression}/"
