"""Situations that a random world seldom has, each in its own collection: what one rule alone is there for."""

from __future__ import annotations

from collections.abc import Callable

from bson import Int64

from corpus.oplog_acts import NO_PREVIOUS, bulk, loop
from corpus.oplog_build import Build, Planned
from corpus.oplog_entries import UI


def beside_a_pass(build: Build) -> None:
    """A deleteMany of many times the size of a TTL pass, in the second of one."""
    ns, begin, size = "expiring.own", build.rng.uniform(0, 60_000), build.rng.randrange(3, 20)
    at, passes = begin, 0
    while at < build.end:
        for n in range(max(1, round(build.rng.gauss(size, size / 5)))):
            build.writer.write(at + n * 0.15, "d", ns, build.identity())
        at, passes = at + 60_000 + build.rng.uniform(0, 40), passes + 1
    build.ttl.add(ns)
    count = size * build.rng.randrange(20, 60)
    label = build.plan(Planned(f"beside a pass: {count} on {ns}", ("deleteMany",), ns, count, op="d"))
    when = begin + 60_000 * round(build.rng.uniform(0.4, 0.8) * passes) + build.rng.uniform(200, 900)
    for n in range(count):
        build.writer.write(when + n * 0.15, "d", ns, build.identity(), label=label)


def statements_on_the_same(build: Build) -> None:
    """Two or three updateManys over the same documents, seconds apart."""
    ns, documents = "quiet.same", [build.identity() for _ in range(build.rng.randrange(20, 500))]
    when = build.rng.uniform(0.3, 0.8) * build.end
    if build.rng.random() < 0.5:
        build.rng.shuffle(documents)
    for number in range(build.rng.randrange(2, 4)):
        label = build.plan(Planned(f"same documents {number}", ("updateMany",), ns, len(documents), op="u"))
        for n, document in enumerate(documents):
            build.writer.write(when + n * 0.12, "u", ns, document, label=label)
        when += len(documents) * 0.12 + build.rng.choice((1, 10)) * build.rng.uniform(300, 800)


def repeated_without_session(build: Build) -> None:
    """Many updateOnes of a few documents without a session."""
    ns, documents = "quiet.repeated", [build.identity() for _ in range(build.rng.randrange(2, 9))]
    label = build.plan(Planned("repeated without session", ("updates",), ns, len(documents), op="u"))
    when, millis = build.rng.uniform(0.3, 0.8) * build.end, build.rng.choice((0.5, 2, 5))
    for n in range(build.rng.randrange(60, 600)):
        build.writer.write(when + n * millis, "u", ns, documents[n % len(documents)], label=label)


def another_field(build: Build) -> None:
    """A job that changes one field, and a person's updateMany of its size that changes another."""
    ns, size, runs = "jobs.field", build.rng.randrange(20, 400), build.rng.randrange(6, 20)
    for run in range(runs):
        at = build.end * (run + build.rng.uniform(0, 0.6)) / runs
        for n in range(round(size * build.rng.uniform(0.7, 1.4))):
            build.writer.write(at + n * 0.15, "u", ns, build.identity())
    label = build.plan(Planned(f"another field: {size} on {ns}", ("updateMany",), ns, size, op="u"))
    at = build.end * (round(build.rng.uniform(0.3, 0.8) * runs) + 0.8) / runs
    for n in range(size):
        build.writer.write(at + n * 0.15, "u", ns, build.identity(), field="price", label=label)


def uneven_pool(build: Build) -> None:
    """Promise.all over a pool that uses one session more than all others."""
    ns, count = "quiet.uneven", build.rng.choice((120, 300, 1_200))
    first, *others = [build.session("app@admin", build.rng.randrange(100)) for _ in range(build.rng.randrange(4, 12))]
    label = build.plan(Planned(f"uneven pool: {count} on {ns}", ("fan_out",), ns, count, op="d"))
    when, share = build.rng.uniform(0.3, 0.8) * build.end, build.rng.uniform(0.55, 0.75)
    alone = build.rng.choice((0.0, 0.2, 0.4)) * count
    for n in range(count):
        session = first if n < alone or build.rng.random() < share else build.rng.choice(others)
        build.writer.write(when + n * 0.7, "d", ns, build.identity(), session, label=label)


def just_started(build: Build) -> None:
    """An application that was started in the last minutes, and goes on: nobody's act."""
    ns, op = "young.own", build.rng.choice("du")
    pool = [build.session("new@admin") for _ in range(6)]
    at, size = build.end - build.rng.uniform(60_000, 240_000), build.rng.uniform(1.5, 3.5)
    while at < build.end:
        session = build.rng.choice(pool)
        for n in range(round(build.rng.lognormvariate(size, 0.8))):
            build.writer.write(at + n, op, ns, build.identity(), session)
        at += min(build.rng.expovariate(1 / 9_000), 20_000)


def several_transactions(build: Build) -> None:
    """A script that removes documents in transactions, one after the other."""
    ns, session, documents = "quiet.batches", build.session("ann@shop", 3), 0
    at, size = build.rng.uniform(0.3, 0.8) * build.end, build.rng.randrange(20, 60)
    label = build.plan(Planned(f"transactions of {size}", ("transaction",), ns, 0))
    for _ in range(build.rng.randrange(3, 30)):
        inner = [{"op": "d", "ns": ns, "ui": UI, "o": {"_id": build.identity()}} for _ in range(size)]
        session.number, documents = session.number + 1, documents + size
        around = {"lsid": session.lsid, "txnNumber": Int64(session.number), "prevOpTime": NO_PREVIOUS}
        build.writer.command(at, "admin", {"applyOps": inner}, label, **around)
        at += build.rng.uniform(50, 2_000)
    build.planned[label].documents = documents


def many_statements(build: Build) -> None:
    """A shell's loop of deleteManys of a size, for some minutes: less than a fifth of the oplog."""
    ns, size = "quiet.many", build.rng.randrange(5, 60)
    label = build.plan(Planned(f"many statements of {size}", ("deleteMany", "slow_loop"), ns, 0, op="d"))
    at, millis = build.rng.uniform(0.3, 0.7) * build.end, build.rng.uniform(300, 3_000)
    for _ in range(round(build.end * build.rng.uniform(0.05, 0.2) / (size * 0.15 + millis))):
        for n in range(size):
            build.writer.write(at + n * 0.15, "d", ns, build.identity(), label=label)
        build.planned[label].documents += size
        at += size * 0.15 + millis


def pool_in_a_busy_place(build: Build) -> None:
    """A pool's act where the same user's application writes single documents all the time, after a pause of it."""
    ns, op = "busy.own", build.rng.choice("du")
    pool = [build.session("app@admin", build.rng.randrange(100)) for _ in range(6)]
    for at in build.arrivals(4.0):
        build.writer.write(at, op, ns, build.identity(), build.rng.choice(pool))
    count, when = build.rng.randrange(200, 1_200), build.rng.uniform(0.3, 0.8) * build.end
    label = build.plan(Planned(f"busy pool: {count} {op} on {ns}", ("fan_out",), ns, count, op=op))
    script = [build.session("app@admin") for _ in range(build.rng.choice((8, 30)))]
    pause = build.rng.randrange(6)
    for n in range(count):
        build.writer.write(when, op, ns, build.identity(), build.rng.choice(script), label=label)
        when += build.rng.uniform(300, 900) if n == pause else 0.8


def two_loops(build: Build) -> None:
    """Two scripts of one user at the same time, each with its own session."""
    ns, op, when = "quiet.two", build.rng.choice("du"), build.rng.uniform(0.3, 0.8) * build.end
    for name in ("one", "other"):
        count, millis = build.rng.randrange(20, 900), build.rng.uniform(0.5, 20)
        kinds = ("deletes",) if op == "d" else ("updates",)
        session, at = build.session("ann@shop"), when + build.rng.uniform(0, 4_000)
        label = build.plan(Planned(f"two loops, {name}: {count}", (*kinds, "slow_loop"), ns, count, op=op))
        for n in range(count):
            build.writer.write(at + n * millis, op, ns, build.identity(), session, label=label)


def queue(build: Build) -> None:
    """Workers that take jobs by findAndModify at a pace of their own, and a person who empties the queue so."""
    ns, pool = "queue.own", [build.session("worker@admin", build.rng.randrange(100)) for _ in range(4)]
    for at in build.arrivals(build.rng.uniform(0.5, 5)):
        build.writer.write(at, "d", ns, build.identity(), build.rng.choice(pool), image=True)
    count, when = build.rng.randrange(200, 2_000), build.rng.uniform(0.3, 0.8) * build.end
    session, millis = build.session("ann@shop"), build.rng.uniform(0.5, 5)
    label = build.plan(Planned(f"queue: {count} on {ns}", ("deletes",), ns, count, op="d"))
    for n in range(count):
        build.writer.write(when + n * millis, "d", ns, build.identity(), session, image=True, label=label)


def purge(build: Build) -> None:
    """A person's script that deletes in batches of a thousand or so, with a pause after each."""
    ns, size, millis = "quiet.purged", build.rng.randrange(200, 2_000), build.rng.choice((500, 5_000, 9_000))
    label = build.plan(Planned(f"purge in batches of {size}", ("deleteMany", "slow_loop"), ns, 0, op="d"))
    at = build.rng.uniform(0.2, 0.5) * build.end
    for batch in range(build.rng.randrange(3, 12)):
        for n in range(size if batch else size + 3):
            build.writer.write(at + n * 0.15, "d", ns, build.identity(), label=label)
            build.planned[label].documents += 1
        at += size * 0.15 + millis * build.rng.uniform(0.9, 1.1)


def bulk_beside_a_loop(build: Build) -> None:
    """A bulkWrite while a slow loop of the same user goes on, each in its own session."""
    ns, op, when = "quiet.beside", build.rng.choice("du"), build.rng.uniform(0.3, 0.6) * build.end
    steps, millis, count = build.rng.randrange(100, 400), build.rng.uniform(100, 900), build.rng.randrange(20, 300)
    loop(build, "a slow loop", ns, steps, op, at=when, millis=millis)
    bulk(build, "a bulk beside it", ns, count, op, when + build.rng.uniform(0.2, 0.8) * steps * millis)
    if count * millis < 48_000:  # not four times what the loop writes in ten seconds, with sizes rounded to a fifth
        [*build.planned.values()][-1].must = "may"


def after_single_deletes(build: Build) -> None:
    """A deleteMany right after a minute of an application's single deletes, all without sessions, on one collection."""
    ns, millis, when = "quiet.after", build.rng.uniform(60, 400), build.rng.uniform(0.3, 0.7) * build.end
    for n in range(singles := build.rng.randrange(100, 600)):
        build.writer.write(when + n * millis, "d", ns, build.identity())
    count = build.rng.randrange(1_000, 4_000)
    label = build.plan(Planned(f"after single deletes: {count} on {ns}", ("deleteMany",), ns, count, op="d"))
    for n in range(count):
        build.writer.write(when + singles * millis + n * 0.12, "d", ns, build.identity(), label=label)


SITUATIONS: tuple[Callable[[Build], None], ...] = (
    beside_a_pass, statements_on_the_same, repeated_without_session, another_field, uneven_pool, just_started,
    several_transactions, many_statements, pool_in_a_busy_place, two_loops, queue, purge,
    bulk_beside_a_loop, after_single_deletes,
)  # fmt: skip
