"""Worlds of the labelled corpus from a seed: applications, jobs and acts of people nobody has thought of together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from bson import Int64

from corpus import oplog_routine as routine
from corpus.oplog_acts import NO_PREVIOUS, bulk, command, drop_database, fan_out, loop, statement, transaction
from corpus.oplog_build import BEGIN, Build, Planned, Scenario
from corpus.oplog_entries import UI, OplogWriter
from corpus.oplog_situations import SITUATIONS

_APPLICATIONS: tuple[Callable[[Build], None], ...] = (
    routine.web, routine.without_sessions, routine.workers, routine.ttl, routine.capped, routine.short_processes,
    routine.account_removals, routine.migrations, routine.time_series,
)  # fmt: skip
_TELLING = 8
"""What is so many times as large as an application's own writes there stands out, whatever their rhythm."""

_KINDS = (
    "statement", "statement", "paused", "loop", "slow", "again", "bulk", "pool", "slow pool", "command", "transaction",
    "transactions",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """A collection in which something writes: with or without sessions, deletes or updates, at most so many at once."""

    ns: str
    op: str
    sessions: bool
    largest: int


_BUSY: dict[Callable[[Build], None], tuple[_Place, ...]] = {
    routine.web: (_Place("shop.orders", "d", True, 5), _Place("shop.carts", "u", True, 5)),
    routine.without_sessions: (_Place("legacy.tokens", "d", False, 2), _Place("legacy.visits", "u", False, 1)),
    routine.workers: (_Place("jobs.expired", "d", False, 600), _Place("jobs.batches", "d", True, 300)),
    routine.short_processes: (_Place("cron.seen", "u", True, 100),),
    routine.account_removals: (_Place("social.posts", "d", False, 400),),
}


def _job(build: Build, number: int) -> _Place:
    """A job at an interval or at random moments, four runs at least, each of about a size."""
    ns, op = f"jobs.own{number}", build.rng.choice("du")
    size, sessions = round(10 ** build.rng.uniform(0.7, 3)), build.rng.random() < 0.5
    runs = build.rng.randrange(5, 20)
    every, jitter = build.end / runs, build.rng.choice((0.002, 0.05, 0.4))
    begin, largest = build.rng.uniform(0, every / 2), 0
    stays = build.session("cron@admin", 30) if build.rng.random() < 0.5 else None
    millis = build.rng.choice((0.1, 0.4, 3.0))
    for run in range(runs):
        when = begin + every * (run + build.rng.uniform(0, jitter))
        session = (stays or build.session("cron@admin")) if sessions else None
        count = max(1, round(size * build.rng.uniform(0.7, 1.4)))
        largest = max(largest, count)
        for n in range(count):
            build.writer.write(when + n * millis, op, ns, build.identity(), session)
    return _Place(ns, op, sessions, largest)


def _pool_job(build: Build, number: int) -> _Place:
    """Workers of one pool that are all given work at the same moments."""
    ns, runs = f"jobs.pool{number}", build.rng.randrange(6, 14)
    sessions = build.rng.choice((4, 10))
    pool = [build.session("worker@admin", build.rng.randrange(100)) for _ in range(sessions)]
    size, every, largest = build.rng.randrange(20, 400), build.end / runs, 0
    for run in range(runs):
        when, count = every * (run + build.rng.uniform(0.1, 0.4)), round(size * build.rng.uniform(0.7, 1.4))
        largest = max(largest, count)
        for n in range(count):
            build.writer.write(when + n * 2.0, "d", ns, build.identity(), build.rng.choice(pool))
    return _Place(ns, "d", True, largest)


def _refreshed(build: Build) -> None:
    """A report made again by ``$out``, and a cache that is dropped, at intervals."""
    runs = build.rng.randrange(6, 30)
    for run in range(runs):
        at = build.end * (run + build.rng.uniform(0, 0.1)) / runs
        out = {"renameCollection": f"shop.tmp.agg_out.{run:04x}", "to": "shop.daily", "dropTarget": UI}
        build.writer.command(at, "shop", out, o2={"numRecords": 40 + run % 3})
        build.writer.command(at + 1_000, "cache", {"drop": "pages"}, o2={"numRecords": 300 + run})


def _deployed(build: Build, number: int) -> _Place:
    """An application that is started again at some moments: each time another pool of sessions does what it does."""
    ns, op, largest = f"app.own{number}", build.rng.choice("du"), build.rng.choice((1, 3, 12))
    starts = sorted(build.rng.uniform(0, build.end) for _ in range(build.rng.randrange(4)))
    for begin, end in pairwise([0.0, *starts, build.end]):
        pool, at = [build.session("web@admin", build.rng.randrange(1_000)) for _ in range(6)], begin
        while (at := at + build.rng.expovariate(1 / 700)) < end - 300:
            session = build.rng.choice(pool)
            for n in range(build.rng.randrange(1, largest + 1)):
                build.writer.write(at + n, op, ns, build.identity(), session)
    return _Place(ns, op, True, largest)


def _commanded(build: Build, name: str, number: int, count: int) -> None:
    """A drop, a dropDatabase or an ``$out`` of a person."""
    made = {"o2": {"numRecords": count}}
    match build.rng.choice(("drop", "database", "out")):
        case "database":
            drop_database(build, name, f"gone{number}")
        case "drop":
            command(build, name, ("drop",), f"quiet.d{number}", {"drop": f"d{number}"}, count, **made)
        case _:
            source, ns = f"quiet.tmp.agg_out.{number:x}", f"quiet.o{number}"
            out = {"renameCollection": source, "to": ns, "dropTarget": UI}
            command(build, name, ("out",), ns, out, count, **made)


def _transactions(build: Build, name: str, ns: str, count: int, at: float) -> None:
    """Transactions of one session one after the other, each of a few deletes."""
    session, done = build.session("ann@shop", 3), 0
    label = build.plan(Planned(name, ("transaction", "deletes"), ns, count))
    while done < count:
        few = min(build.rng.randrange(1, 6), count - done)
        inner = [{"op": "d", "ns": ns, "ui": UI, "o": {"_id": build.identity()}} for _ in range(few)]
        session.number += 1
        around = {"lsid": session.lsid, "txnNumber": Int64(session.number), "prevOpTime": NO_PREVIOUS}
        build.writer.command(at, "admin", {"applyOps": inner}, label, **around)
        done, at = done + few, at + build.rng.uniform(2, 20)


def _again(build: Build, name: str, ns: str, count: int, at: float) -> None:
    """A loop of updateOne that comes to some documents twice."""
    documents = [build.identity() for _ in range(max(count // 3, 4))]
    session, chosen = build.session("ann@shop"), [build.rng.choice(documents) for _ in range(count)]
    label = build.plan(Planned(name, ("updates",), ns, len(set(chosen)), op="u", user=session.user))
    for n, identity in enumerate(chosen):
        build.writer.write(at + 2 * n, "u", ns, identity, session, label=label)


def _dated(build: Build, number: int) -> None:
    """A job that trims the collection of each day, tenant or shard in turn: their names differ by a number."""
    runs, size, sessions = build.rng.randrange(5, 15), build.rng.randrange(20, 400), build.rng.random() < 0.5
    for run in range(runs):
        session, at = build.session("cron@admin"), build.end * (run + build.rng.uniform(0, 0.2)) / runs
        for n in range(round(size * build.rng.uniform(0.7, 1.4))):
            ns = f"dated{number}.log_{20261100 + run}"
            build.writer.write(at + n * 0.2, "d", ns, build.identity(), session if sessions else None)


def _bought(build: Build) -> None:
    """An application whose purchases are transactions, some of them large."""
    pool = [build.session("app@admin", build.rng.randrange(100)) for _ in range(6)]
    for at in build.arrivals(build.rng.choice((0.05, 0.5))):
        session = build.rng.choice(pool)
        session.number += 1
        size = round(build.rng.lognormvariate(2.5, 0.6))
        inner = [{"op": "u", "ns": "shop.stock", "ui": UI, "o": {"$v": 2, "diff": {"u": {"n": 1}}},
                  "o2": {"_id": build.identity()}} for _ in range(size)]  # fmt: skip
        around = {"lsid": session.lsid, "txnNumber": Int64(session.number), "prevOpTime": NO_PREVIOUS}
        build.writer.command(at, "admin", {"applyOps": inner}, **around)


def _act(build: Build, number: int, place: _Place, at: float) -> None:
    """One act of a person at about ``at``, where something writes or nothing does (``largest`` 0).

    It must be found where its size, or its user, makes it stand out from all that is written there.
    """
    rng, ns, op = build.rng, place.ns, place.op
    count, kind = round(10 ** rng.uniform(1, 3.4)), rng.choice(_KINDS)
    if kind in ("pool", "bulk"):
        count = max(count, 100 if kind == "pool" else 20)
    elif kind in ("slow", "slow pool"):
        count = max(min(count, 300), 100)
    name = f"{kind} {number}: {count:,} {op} on {ns}"
    if kind == "command":
        _commanded(build, name, number, count)
        return
    if kind == "transaction":
        transaction(build, name, f"quiet.t{number}", max(min(count, 900), 20), op)
        return
    if kind == "transactions":
        _transactions(build, name, f"quiet.t{number}", max(min(count, 400), 20), at)
        return
    in_session, pool = kind not in ("statement", "paused"), kind in ("pool", "slow pool")
    alike = place.sessions == in_session and (pool or not in_session or not build.access_control)
    at_once = place.largest * (20 if pool else 1)
    # The pieces of a statement with pauses, and single writes, may each be as what an application writes there.
    pieces = kind in ("paused", "slow", "slow pool") and place.largest > 0
    must = "may" if alike and (count < _TELLING * max(at_once, 3) or pieces) and place.largest else "found"
    if not in_session:
        pauses = (max(count // rng.randrange(2, 5), 5), rng.uniform(100, 900)) if kind == "paused" else (0, 0.0)
        statement(build, name, ns, count, op, at, pauses=pauses, must=must)
    elif kind == "bulk":
        bulk(build, name, ns, count, op, at)
    elif pool:
        millis = rng.choice((0.2, 1, 5) if kind == "pool" else (60, 150, 400))
        fan_out(build, name, ns, count, op, at, sessions=rng.choice((4, 12, 20)), millis=millis)
    elif kind == "again":
        _again(build, name, ns, count, at)
    else:
        millis = rng.choice((0.5, 2, 10) if kind == "loop" else (100, 400, 900))
        loop(build, name, ns, count, op, at=at, millis=millis, image=rng.random() < 0.2)
    planned = [*build.planned.values()][-1]
    planned.must = must
    if kind == "bulk":
        planned.kinds += ("deletes", "updates")  # of a session that nothing tells from an application's


def random_scenario(seed: int) -> Scenario:
    """The world of a seed: the same bytes each time."""
    rng = random.Random(f"random/{seed}")
    writer = OplogWriter(BEGIN, rng.choice(("6.0", "6.0", "4.4")))
    build = Build(rng, writer, rng.choice((12, 25, 50)), rng.choice((2, 5, 10)), access_control=rng.random() < 0.7)
    applications = rng.sample(_APPLICATIONS, rng.randrange(1, 6))
    for one in applications:
        one(build)
    places = [place for one in applications for place in _BUSY.get(one, ())]
    places += [_job(build, number) for number in range(rng.randrange(4))]
    places += [_pool_job(build, number) for number in range(rng.randrange(2))]
    places += [_deployed(build, number) for number in range(rng.randrange(2))]
    for extra in (_refreshed, _bought, lambda build: _dated(build, 0)):
        if rng.random() < 0.3:
            extra(build)
    acted = set[str]()
    for number in range(rng.randrange(1, 6)):
        quiet = _Place(f"quiet.c{number}", rng.choice("du"), False, 0)
        place = rng.choice([*places, quiet]) if rng.random() < 0.5 else quiet
        if place.ns not in acted:
            _act(build, number, place, rng.uniform(0.25, 0.85) * build.end)
        acted.add(place.ns)
    for _ in range(rng.randrange(4)):
        build.writer.delay(rng.uniform(0, build.end), rng.uniform(25, 900))
    for situation in SITUATIONS:
        if rng.random() < 0.3:
            situation(build)
    for planned in build.planned.values():
        if planned.ns in build.unknowable:
            planned.must = "may"
    return build.finished(f"random, seed {seed}")
