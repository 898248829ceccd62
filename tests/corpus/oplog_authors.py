"""Accidents among writes of others from a seed, with what the server's records have of them: lines of who did it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import bson
from bson import Binary

from builders.authors import ANN, BOB, JOB, MILLIS, NS, SHELL, TOOL, TTL, Oplog, T, a_log, book_of, named, ran
from tallyglass.evidence.book import Coverage
from tallyglass.evidence.facts import INTERNAL_USER, Client, Definition, Source, Statement, user_of
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm, Incident

CASES = range(100)

_CLIENTS = (
    *(ANN, ANN, BOB, JOB, SHELL, TOOL, TTL), replace(ANN, address="10.0.0.1:2", connection="conn11"),
    Client("", "shop", "10.0.0.4:1", "PyMongo 4.9", "conn4"), Client("", "shop", "10.0.0.4:2", "PyMongo 4.9", "conn5"),
    Client(INTERNAL_USER, "mongos", "10.0.0.9:1", "", "conn7"),
)  # fmt: skip
_KINDS = {"drop": "drop", "out": "rename", "collMod": "collMod", "users": "users", "dropDatabase": "dropDatabase"}


@dataclass(frozen=True, slots=True)
class _Writer:
    """One client's writes: ``count`` of them from a millisecond to another, in a session or without one."""

    client: Client
    begin: int
    end: int
    count: int
    session: bytes

    @property
    def lsid(self) -> dict[str, Any]:
        name, _, db = self.client.user.partition("@")
        return {"id": Binary(self.session, 4), "uid": Binary(user_of(name, db)[1])}


def authored() -> Iterator[tuple[int, list[Incident]]]:
    """Each case with its incidents, as the evidence names their authors."""
    for case in CASES:
        yield case, asyncio.run(_case(random.Random(case)))


async def _case(rng: random.Random) -> list[Incident]:
    op = rng.choice("dddu")
    writers = [_writer(rng) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    oplog = Oplog()
    for at, id, place in sorted(
        ((one.begin + (one.end - one.begin) * n // one.count, 100 * at + n, at) for at, one in enumerate(writers)
         for n in range(one.count)),
    ):  # fmt: skip
        own = {"lsid": writers[place].lsid, "txnNumber": bson.Int64(id)} if writers[place].session else {}
        oplog.write(at, id, op, **own)
    rows = [_incident(rng, op, oplog, writers)]
    facts: list[Any] = [one for n, writer in enumerate(writers) for one in _statements(rng, op, n, writer)]
    if rng.random() < 0.3:
        kind = rng.choice(list(_KINDS))
        oplog.write(max(one.end for one in writers) + 5, op="c", ns="shop.$cmd")
        rows.append(replace(rows[0], number=2, kind=kind, op="", sessions=0, session="", documents=None))
        facts += [_definition(rng, _KINDS[kind]) for _ in range(rng.choice((0, 1, 1, 2)))]
    book = book_of(*facts)
    for one in writers:
        if one.session and rng.random() < 0.5:
            book.add_command(one.session, None, rng.choice((one.client, one.client, BOB)))
        if one.session and rng.random() < 0.5:
            book.users[bytes(one.lsid["uid"])] = one.client.user
    if rng.random() < 0.1:
        book.coverage["a:1"] = [Coverage(0, MILLIS + rng.randrange(60))]
    if rng.random() < 0.1:
        book.doubt_clock(MILLIS + rng.randrange(60_000))
    log = a_log(*_logged(rng, op, writers)) if rng.random() < 0.5 else ()
    return await named(oplog, book, *rows, log=log)


def _writer(rng: random.Random) -> _Writer:
    begin = rng.choice((0, 5, 500))
    session = rng.randbytes(16) if rng.random() < 0.25 else b""
    return _Writer(rng.choice(_CLIENTS), begin, begin + rng.choice((10, 40, 3_000)), rng.randrange(1, 30), session)


def _incident(rng: random.Random, op: str, oplog: Oplog, writers: list[_Writer]) -> Incident:
    """All entries as one row, or the first half of them."""
    entries = [bson.decode(raw) for raw in oplog.raw]
    first, last = entries[0], entries[-1 if rng.random() < 0.8 else len(entries) // 2]
    sessions = sum(bool(one.session) for one in writers) if all(one.session for one in writers) else 0
    only = writers[0] if len(writers) == sessions == 1 else None
    return Incident(
        1, "ttl" if rng.random() < 0.05 else "deletes", f"deletes on {NS}", NS, Harm.LOSS,
        *(Ts(one["ts"].time, one["ts"].inc) for one in (first, last)), first["wall"], last["wall"], len(entries),
        len(entries), op=op, sessions=sessions, session=only.session.hex() if only else "",
        user_hash=bytes(only.lsid["uid"]).hex() if only else "", confidence=rng.choice(("high", "low")),
    )  # fmt: skip


def _statements(rng: random.Random, op: str, place: int, one: _Writer) -> list[Statement]:
    """What the records have of one writer: nothing, all as one statement, or in two."""
    parts = rng.choice((0, 1, 1, 1, 1, 2))
    stopped, late = rng.random() < 0.1, rng.choice((0, 0, 0, 900))
    found = []
    for part in range(parts):
        count = one.count // parts + (part < one.count % parts)
        found.append(
            replace(
                ran(one.client, one.begin - 1 + late, one.end + 1 + late, None if stopped else count), op=op,
                keys=2 * count if stopped else None, in_session=bool(one.session) if rng.random() < 0.9 else None,
                session=one.session, text=f"delete{place}({{}})", plan=rng.choice(("", "IXSCAN")),
                ids=frozenset(range(100 * place, 100 * place + one.count)) if rng.random() < 0.3 else None,
                fields=frozenset(rng.choice(("x", "y", "xy"))) if op == "u" and rng.random() < 0.5 else None,
                source=rng.choice((Source.LOG, Source.LOG, Source.LOG, Source.PROFILE, Source.AUDIT)),
                floor=MILLIS + rng.choice((0, 0, 0, 8)), shape=1,
            )
        )  # fmt: skip
    return found


def _definition(rng: random.Random, name: str) -> Definition:
    ns = NS.partition(".")[2] if name == "collMod" else NS
    commit = rng.choice((Ts(0, 0), Ts(T, 1), Ts(T + 90, 1)))
    return Definition(name, ns, rng.choice(_CLIENTS), MILLIS + rng.choice((0, 9, 30_000)), commit, f"{name} {ns}")


def _logged(rng: random.Random, op: str, writers: list[_Writer]) -> Iterator[Statement]:
    """Each writer's statement as a whole log has it, some of them run at other times too."""
    for shape, one in enumerate(writers, 1):
        if one.session or rng.random() < 0.3:
            continue
        own = replace(
            ran(one.client, one.begin - 1, one.end + 1, one.count), op=op, many=rng.random() < 0.8, shape=shape,
            text=f"logged{shape}({{}})",
        )  # fmt: skip
        yield own
        for _ in range(rng.choice((0, 0, 1, 1, 4, 20))):
            at = rng.choice((-500_000, -300_000, 100_000, 300_000, 700_000, 1_100_000)) + rng.randrange(40_000)
            yield replace(own, began=MILLIS + at, ended=MILLIS + at + 5, documents=rng.randrange(40))
