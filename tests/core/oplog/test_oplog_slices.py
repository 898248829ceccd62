"""The incidents of an oplog do not depend on how it is cut into slices, nor on the end from which they are read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import Int64, ObjectId, Timestamp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpus.oplog_build import BEGIN
from corpus.oplog_entries import UI, OplogWriter, Session
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.incidents.touched import is_repeated
from tallyglass.oplog.snapshot import Incident

NAMESPACES = ["shop.orders", "shop.carts", "crm.people"]
EXPIRING = "shop.carts"
EXAMPLES = [5, pytest.param(30, marks=pytest.mark.long), pytest.param(600, marks=pytest.mark.soak)]
NO_PREVIOUS = {"ts": Timestamp(0, 0), "t": Int64(-1)}


def random_oplog(rng: random.Random) -> list[bytes]:
    """Some minutes of jobs, single writes, pools, loops, statements, commands and passes of a TTL index."""
    writer = OplogWriter(BEGIN, rng.choice(["6.0", "4.4"]))
    sessions = [Session(bytes([n]) * 16, rng.choice(["app@admin", "ann@admin"])) for n in range(4)]
    minutes = rng.choice([2, 8, 30])
    for _ in range(rng.randrange(1, 9)):
        _something(rng, writer, rng.random() * minutes * 60_000, sessions)
    for _ in range(rng.randrange(3)):
        ns, op, size = rng.choice(NAMESPACES), rng.choice("du"), rng.choice([1, 3, 12])
        for at in range(0, minutes * 60_000, rng.choice([7_000, 60_000])):
            session = rng.choice([None, rng.choice(sessions)])
            for n in range(size + rng.randrange(2)):
                writer.write(at + n * 3, op, ns, rng.randrange(50), session)
    for number in range(rng.choice([0, 0, 5, 12])):
        inner = [{"op": rng.choice("ud"), "ns": rng.choice(NAMESPACES), "o": {"_id": n}, "o2": {"_id": n}}
                 for n in range(rng.choice([1, 6, 6, 25]))]  # fmt: skip
        around = {"lsid": sessions[0].lsid, "txnNumber": Int64(number), "prevOpTime": NO_PREVIOUS}
        writer.command(number * minutes * 5_000 + rng.random(), "admin", {"applyOps": inner}, **around)
    return writer.stream()[0]


def _something(rng: random.Random, writer: OplogWriter, at: float, sessions: list[Session]) -> None:
    ns, op, size = rng.choice(NAMESPACES), rng.choice("du"), rng.choice([2, 9, 30])
    gap = rng.choice([0.2, 10, 49, 60, 900, 1_100, 4_000])
    match rng.randrange(7):
        case 0:
            for n in range(size):
                writer.write(at + n * gap, op, ns, n)
        case 1:
            for n in range(size):
                writer.write(at + n * gap, op, ns, n, sessions[0], new_number=rng.choice([0, 1, 1, 3]))
        case 2:
            for n in range(size * 2):
                writer.write(at + n * gap, op, ns, n, rng.choice(sessions))
        case 3:
            name = rng.choice(["old", "older"])
            writer.command(at, "shop", {"drop": name}, o2={"numRecords": size})
            writer.command(at + gap, "shop", rng.choice([{"create": name}, {"dropDatabase": 1}, {"drop": "x"}]))
        case 4:
            out = {"renameCollection": "shop.tmp.agg_out.0b1c", "to": "shop.report", "dropTarget": UI}
            for n in range(rng.choice([1, 5])):
                writer.command(at + n * 100_000, "shop", out, o2={"numRecords": size})
        case 5:
            inner = [{"op": op, "ns": ns, "o": {"_id": n}, "o2": {"_id": n}} for n in range(size)]
            writer.command(at, "admin", {"applyOps": inner})
            writer.write(at + gap, op, ns, 1)
        case 6:
            staging, more = f"{ns}_pitr_20261122T084100", {"o2": {"_id": 1}}
            writer.entry(at, "u", staging, {"$v": 2, "diff": {"i": {"b": 1, "n": rng.choice([1, size])}}}, **more)
            for n in range(size):
                writer.write(at + n, "u", ns, n)
            if rng.random() < 0.7:
                writer.entry(at + gap * size, "u", staging, {"$v": 2, "diff": {"d": {"n": False}}}, **more)


def fed(slices: list[list[bytes]]) -> Grouper:
    grouper = Grouper()
    grouper.known.ttl.add(EXPIRING)
    grouper.known.ttl_millis = 60_000
    for one in slices:
        grouper.feed_batch(b"".join(one))
    return grouper


def shape(incidents: tuple[Incident, ...]) -> list[tuple[Any, ...]]:
    return [
        (i.number, i.kind, i.title, i.ns, i.first, i.last, i.ops, i.documents, i.documents_exact, i.point, i.open,
         i.note, i.reason, i.confidence, i.session, i.sessions, i.user_hash)
        for i in incidents
    ]  # fmt: skip


def in_any_order(rng: random.Random, entries: list[bytes]) -> list[list[bytes]]:
    """Slices of random sizes, from one of them on to both ends."""
    cuts = sorted(rng.sample(range(1, len(entries)), min(rng.choice([1, 4, 30, 300]), len(entries) - 1)))
    slices = [entries[low:high] for low, high in zip([0, *cuts], [*cuts, len(entries)], strict=True)]
    low = high = rng.randrange(len(slices))
    found = [slices[low]]
    while low > 0 or high < len(slices) - 1:
        older = high == len(slices) - 1 or (low > 0 and rng.random() < 0.5)
        low, high = (low - 1, high) if older else (low, high + 1)
        found.append(slices[low if older else high])
    return found


@pytest.mark.parametrize("examples", EXAMPLES)
def test_slices_and_their_order_do_not_matter(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.integers(min_value=0, max_value=2**32))
    def holds(seed: int) -> None:
        rng = random.Random(seed)
        entries = random_oplog(rng)
        if len(entries) < 2:
            return
        whole = shape(fed([entries]).incidents())
        assert shape(fed(in_any_order(rng, entries)).incidents()) == whole

    holds()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_an_act_is_withdrawn_only_with_a_reason_that_is_shown(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.integers(min_value=0, max_value=2**32))
    @example(54576)
    def holds(seed: int) -> None:
        rng = random.Random(seed)
        entries = random_oplog(rng)
        if len(entries) < 2:
            return
        part = rng.randrange(1, len(entries))
        grouper = fed([entries[:part]])
        # One of low confidence raises no alarm, and may turn out to be too small once more is known.
        before = [row for row in grouper.incidents() if not row.routine and row.confidence != "low"]
        grouper.feed_batch(b"".join(entries[part:]))
        after = grouper.incidents()
        for row in before:
            same = [one for one in after if one.ns.partition(".")[0] == row.ns.partition(".")[0] and one.op == row.op]
            assert any(one.first <= row.last and row.first <= one.last for one in same), row
            assert all(one.reason for one in same if one.routine)

    holds()


IDS: dict[str, Any] = {
    "numbers": lambda n: n,
    "ObjectIds": lambda n: ObjectId(b"\x65\0\0\0" + b"proc!" + n.to_bytes(3, "big")),
    "texts": lambda n: f"order-{n}",
    "several types": lambda n: (n, f"order-{n}", ObjectId(n.to_bytes(12, "big")))[n // 100 % 3],
}


def sampled(entries: list[bytes], size: int) -> tuple[int, ...]:
    """The sample of the documents of one stretch, read in slices of this size."""
    grouper = fed([entries[at : at + size] for at in range(0, len(entries), size)])
    (family,) = grouper._writes.families.values()
    (burst,) = family.fine.bursts()
    return burst.touched


@pytest.mark.parametrize("kind", IDS)
def test_the_sample_of_updated_documents_does_not_depend_on_slices(kind: str) -> None:
    writer = OplogWriter(BEGIN)
    for n in range(2_000):
        o = {"$v": 2, "diff": {"u": {"state": "x"}}}
        writer.entry(n * 0.1, "u", "shop.orders", o, ui=UI, o2={"_id": IDS[kind](n % 1_500)})
    entries = writer.stream()[0]
    whole = sampled(entries, 2_000)
    assert len(whole) == 8
    assert is_repeated(whole)
    assert [sampled(entries, size) for size in (1_300, 300, 255, 40)] == [whole] * 4


@pytest.mark.long
@pytest.mark.parametrize("form", ["6.0", "4.4"])
def test_the_sample_is_the_same_if_some_were_updated_by_find_and_modify(form: str) -> None:
    """Its entries have one more field between ``o2`` and the end."""
    samples = []
    for image in (False, True):
        writer, owner = OplogWriter(BEGIN, form), Session(b"s" * 16, "app@admin")
        for n in range(2_000):
            writer.write(n * 0.1, "u", "shop.orders", n % 1_500, owner, image=image and 0 < n % 5 < 4)
        entries = writer.stream()[0]
        samples += [sampled(entries, size) for size in (2_000, 255, 40)]
    assert samples == samples[:1] * 6
    assert is_repeated(samples[0])


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("form", ["6.0", "4.4"])
@pytest.mark.parametrize("count", [5, 30, *(pytest.param(count, marks=pytest.mark.long) for count in (700, 3_000))])
def test_the_order_of_a_stretch_does_not_depend_on_slices(count: int, form: str, others: int) -> None:
    """Two statements at once through the same documents, the second from the start again, some entries large."""
    writer, rng = OplogWriter(BEGIN, form), random.Random(count)
    for n in range(count):
        o = {"$v": 2, "diff": {"u": {"state": "x" * (2_000 if n % 500 == 7 else 1)}}}
        writer.entry(n * 0.4, "u", "shop.orders", o, ui=UI, o2={"_id": n % (count * 2 // 3)})
        writer.write(n * 0.4, "d", "shop.carts", n)
        for _ in range(rng.randrange(others + 1)):
            writer.write(n * 0.4, "i", "crm.people", n)
    entries = writer.stream()[0]

    def orders(slices: list[list[bytes]]) -> list[Any]:
        families = sorted(fed(slices)._writes.families.values(), key=lambda one: one.ns)
        return [burst.order for family in families for burst in family.fine.bursts()]

    whole = orders([entries])
    assert len(whole) == 2
    assert [orders(in_any_order(rng, entries)) for _ in range(6)] == [whole] * 6


@pytest.mark.parametrize(("minutes", "rest", "confidence"), [(2, 10, "low"), (2, 40, "high"), (7, 10, "high")])
def test_a_pool_that_still_writes_may_be_an_application_that_was_just_started(
    minutes: int, rest: int, confidence: str
) -> None:
    """It was busy as it began, wrote now and then since, and did so last ``rest`` seconds before the end."""
    writer, begin = OplogWriter(BEGIN), 3_600_000
    sessions = [Session(bytes([n]) * 16, "app@admin") for n in range(8)]
    writer.write(0, "d", "shop.carts", 1)
    for n in range(400):
        writer.write(begin + n * 20, "u", "shop.orders", n, sessions[n % 8])
    for at in range(begin + 40_000, begin + minutes * 60_000, 40_000):
        writer.write(at, "u", "shop.orders", at, sessions[0])
    writer.write(begin + minutes * 60_000, "u", "shop.orders", 0, sessions[0])
    writer.write(begin + minutes * 60_000 + rest * 1_000, "d", "shop.carts", 2)
    (found,) = [one for one in fed([writer.stream()[0]]).incidents() if not one.routine]
    assert (found.kind, found.documents, found.confidence) == ("fan_out", 400, confidence)


def test_what_an_application_that_was_just_started_writes_at_times_is_one_row() -> None:
    """Four sessions of its pool at first, then four others."""
    writer, begin = OplogWriter(BEGIN), 3_600_000
    sessions = [Session(bytes([n]) * 16, "app@admin") for n in range(8)]
    writer.write(0, "d", "shop.carts", 1)
    for n in range(800):
        writer.write(begin + n * 20 + n // 400 * 30_000, "u", "shop.orders", n, sessions[n // 400 * 4 + n % 4])
    (found,) = [one for one in fed([writer.stream()[0]]).incidents() if not one.routine]
    assert (found.kind, found.documents, found.sessions, found.confidence) == ("fan_out", 800, 8, "low")
