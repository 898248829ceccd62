"""What people do: statements, loops, commands, transactions."""

from __future__ import annotations

from typing import Any

from bson import Int64, Timestamp

from corpus.oplog_build import Build, Planned
from corpus.oplog_entries import UI, Session

NO_PREVIOUS = {"ts": Timestamp(0, 0), "t": Int64(-1)}


def statement(
    build: Build, name: str, ns: str, count: int, op: str = "d", at: float | None = None, *, whole: bool = False,
    gap: float = 0.12, pauses: tuple[int, float] = (0, 0.0), must: str = "found",
) -> None:  # fmt: skip
    """A deleteMany or updateMany; ``pauses`` are (after so many documents, milliseconds)."""
    kinds = ("deleteMany",) if op == "d" else ("updateMany",)
    label = build.plan(Planned(name, (*kinds, "slow_loop"), ns, count, must, op))
    when = at if at is not None else build.rng.uniform(0.3, 0.8) * build.end
    for n in range(count):
        if pauses[0] and n and n % pauses[0] == 0:
            when += pauses[1]
        build.writer.write(when, op, ns, build.identity(), whole=whole, label=label)
        when += build.rng.expovariate(1 / gap)


def loop(
    build: Build, name: str, ns: str, count: int, op: str = "d", *, millis: float = 1.5, image: bool = False,
    whole: bool = False, session: Session | None = None, idle: float = 0.0, must: str = "found",
    at: float | None = None,
) -> None:  # fmt: skip
    """Single writes one after the other by one session; a share of ``idle`` has no effect."""
    kinds = ("deletes",) if op == "d" else ("updates",)
    session = session or build.session("ann@shop")
    label = build.plan(Planned(name, (*kinds, "slow_loop"), ns, count, must, op, user=session.user))
    when = at if at is not None else build.rng.uniform(0.3, 0.6) * build.end
    for _ in range(count):
        while build.rng.random() < idle:
            build.writer.write(when, "n", "quiet.nothing", 0, session)
            when += millis
        build.writer.write(when, op, ns, build.identity(), session, image=image, whole=whole, label=label)
        when += build.rng.uniform(0.5, 1.5) * millis


def bulk(build: Build, name: str, ns: str, count: int, op: str = "d", at: float | None = None) -> None:
    """A bulkWrite of single writes: one transaction number for all."""
    session = build.session("ann@shop")
    label = build.plan(Planned(name, ("batch",), ns, count, op=op, user=session.user))
    when = at if at is not None else build.rng.uniform(0.3, 0.8) * build.end
    for n in range(count):
        build.writer.write(when + n * 0.1, op, ns, build.identity(), session, new_number=n == 0, label=label)


def imported(build: Build, name: str, ns: str, count: int) -> None:
    """mongoimport --mode=upsert: batches of replacements, some of them inserts."""
    session = build.session("ann@shop")
    changed = [build.rng.random() < 0.7 for _ in range(count)]
    label = build.plan(Planned(name, ("batch", "updates"), ns, sum(changed), op="u", user=session.user))
    when = build.rng.uniform(0.3, 0.8) * build.end
    for n, change in enumerate(changed):
        op, mark = ("u", label) if change else ("i", None)
        build.writer.write(when, op, ns, build.identity(), session, new_number=n % 1_000 == 0, whole=True, label=mark)
        when += 0.1


def fan_out(
    build: Build, name: str, ns: str, count: int, op: str = "d", at: float | None = None, *, sessions: int = 20,
    millis: float = 0.5,
) -> None:  # fmt: skip
    """Promise.all over deleteOne or updateOne: the sessions of a pool at once, a write every so many ``millis``."""
    pool = [build.session("app@admin", build.rng.randrange(100)) for _ in range(sessions)]
    label = build.plan(Planned(name, ("fan_out",), ns, count, op=op))
    when = at if at is not None else build.rng.uniform(0.3, 0.8) * build.end
    for n in range(count):
        build.writer.write(when + n * millis, op, ns, build.identity(), build.rng.choice(pool), label=label)


def batched(build: Build, name: str, ns: str, count: int) -> None:
    """6.1 and later: a deleteMany in applyOps of ten, one of them plain."""
    label = build.plan(Planned(name, ("deleteMany",), ns, count, op="d"))
    when = build.rng.uniform(0.3, 0.8) * build.end
    for n in range(0, count, 10):
        inner = [{"op": "d", "ns": ns, "ui": UI, "o": {"_id": n + k}} for k in range(min(10, count - n))]
        build.writer.command(when, "admin", {"applyOps": inner}, label)
        when += build.rng.uniform(0.5, 3)


def command(
    build: Build, name: str, kinds: tuple[str, ...], ns: str, o: dict[str, Any], documents: int = 0, **around: Any
) -> None:
    """A drop, a rename, and so on."""
    label = build.plan(Planned(name, kinds, ns, documents))
    db = "admin" if "applyOps" in o else ns.partition(".")[0]
    build.writer.command(build.rng.uniform(0.3, 0.8) * build.end, db, o, label, **around)


def drop_database(build: Build, name: str, db: str) -> None:
    """First the drops of its collections, then its own entry."""
    label = build.plan(Planned(name, ("dropDatabase",), db, 12))
    at = build.rng.uniform(0.3, 0.8) * build.end
    for number in range(4):
        build.writer.command(at + number * 20, db, {"drop": f"c{number}"}, label, o2={"numRecords": 3})
    build.writer.command(at + 150, db, {"dropDatabase": 1}, label)


def user_removed(build: Build, name: str) -> None:
    """dropUser."""
    label = build.plan(Planned(name, ("users",), "admin.system.users", 1))
    at = build.rng.uniform(0.3, 0.8) * build.end
    build.writer.entry(at, "d", "admin.system.users", {"_id": "shop.ann"}, label)


def role_removed(build: Build, name: str) -> None:
    """dropRole: inside an applyOps with a session."""
    label = build.plan(Planned(name, ("users",), "admin.system.roles", 1))
    inner = [{"op": "d", "ns": "admin.system.roles", "ui": UI, "o": {"_id": "shop.reader"}}]
    around = {"lsid": build.session().lsid, "txnNumber": Int64(1), "prevOpTime": NO_PREVIOUS}
    build.writer.command(build.rng.uniform(0.3, 0.8) * build.end, "admin", {"applyOps": inner}, label, **around)


def transaction(build: Build, name: str, ns: str, count: int, op: str = "d") -> None:
    """One transaction that fits an entry."""
    label = build.plan(Planned(name, ("transaction",), ns, count))
    inner = [{"op": op, "ns": ns, "ui": UI, "o": {"_id": n}} for n in range(count)]
    around = {"lsid": build.session("ann@shop").lsid, "txnNumber": Int64(3), "prevOpTime": NO_PREVIOUS}
    build.writer.command(build.rng.uniform(0.3, 0.8) * build.end, "admin", {"applyOps": inner}, label, **around)
