"""The labelled corpus: oplogs with what a person did in them, and what is routine. Format: oplog_corpus.md."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bson import Int64, Timestamp

from corpus.oplog_entries import UI, OplogWriter, Session
from tallyglass.moment import Ts

BEGIN = 1_795_197_974_000
MINUTE = 60_000.0


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody did. ``must`` is found, may (a lack is no fault) or untellable.

    ``point`` is where to return to; ``kinds`` are the kinds of incident that name it rightly.
    """

    name: str
    kinds: tuple[str, ...]
    ns: str
    first: Ts
    last: Ts
    point: Ts
    documents: int
    must: str
    op: str = ""
    user: str = ""


@dataclass(slots=True)
class Scenario:
    """One oplog with its truth. ``ttl`` and ``capped`` are what the server would say of its collections today."""

    name: str
    entries: list[bytes]
    acts: list[Act]
    places: dict[tuple[str, str], list[Ts]]
    window: tuple[Ts, Ts]
    ttl: frozenset[str] = frozenset()
    capped: frozenset[str] = frozenset()
    held_out: bool = False
    unknowable: frozenset[str] = frozenset()
    """Namespaces of jobs that ran fewer than four times: nobody can tell a job from a person there."""


@dataclass(slots=True)
class Planned:
    """An act before its entries have timestamps."""

    name: str
    kinds: tuple[str, ...]
    ns: str
    documents: int
    must: str = "found"
    op: str = ""
    user: str = ""


@dataclass
class Build:
    """One oplog in the making."""

    rng: random.Random
    writer: OplogWriter
    minutes: float
    rate: float
    planned: dict[str, Planned] = field(default_factory=dict)
    ttl: set[str] = field(default_factory=set)
    capped: set[str] = field(default_factory=set)
    unknowable: set[str] = field(default_factory=set)
    ids: int = 0
    pool: list[Session] = field(default_factory=list)

    @property
    def end(self) -> float:
        """Milliseconds of the stream."""
        return self.minutes * MINUTE

    def identity(self) -> int:
        """A new document."""
        self.ids += 1
        return self.ids

    def session(self, user: str = "", number: int = 0) -> Session:
        """A new client's session."""
        return Session(self.rng.randbytes(16), user, number)

    def arrivals(self, per_second: float) -> Iterator[float]:
        """Moments at random, so many a second."""
        at = self.rng.expovariate(per_second) * 1_000
        while at < self.end:
            yield at
            at += self.rng.expovariate(per_second) * 1_000

    def plan(self, planned: Planned) -> str:
        """Note an act; its label."""
        label = f"{planned.name}#{len(self.planned)}"
        self.planned[label] = planned
        return label


# Background: what runs on any larger installation


def web(build: Build, collections: int = 4) -> None:
    """An application with a pool of sessions, each of which touches every collection."""
    pool = build.pool = [build.session("app@admin", build.rng.randrange(50, 5_000)) for _ in range(8)]
    weights = [2.0**-n for n in range(len(pool))]
    names = [
        "shop.orders",
        "shop.carts",
        "shop.users",
        "shop.events",
        *(f"shop.more{n}" for n in range(collections - 4)),
    ]
    for at in build.arrivals(build.rate):
        (session,) = build.rng.choices(pool, weights)
        ns = build.rng.choice(names)
        op = build.rng.choices("iud", (5, 4, 1))[0]
        for n in range(1 if build.rng.random() < 0.9 else build.rng.randrange(2, 6)):
            build.writer.write(at + n, op, ns, build.identity(), session)


def without_sessions(build: Build, deletes_per_second: float = 1.0) -> None:
    """An application with retryWrites=false: single deletes, pairs, single updates."""
    for at in build.arrivals(deletes_per_second):
        for n in range(1 if build.rng.random() < 0.8 else 2):
            build.writer.write(at + n * 0.5, "d", "legacy.tokens", build.identity())
    for at in build.arrivals(deletes_per_second * 2):
        build.writer.write(at, "u", "legacy.visits", build.identity())


def workers(build: Build) -> None:
    """A queue by findAndModify, a job every five minutes, batches of 300 every two, a worker on one collection."""
    queue, batch, single = (build.session("worker@admin", 900) for _ in range(3))
    for at in build.arrivals(build.rate / 6):
        build.writer.write(at, "u", "jobs.queue", build.identity(), queue, image=True)
    for at in build.arrivals(build.rate / 6):
        build.writer.write(at, "u", "jobs.state", build.identity(), single)
    at, runs = build.rng.uniform(0, 100_000), 0
    while at < build.end:
        for n in range(build.rng.randrange(400, 600)):
            build.writer.write(at + n * 0.2, "d", "jobs.expired", build.identity())
        at += 300_000 + build.rng.uniform(-900, 900)
        runs += 1
    if runs < 4:
        build.unknowable.add("jobs.expired")
    at = build.rng.uniform(0, 60_000)
    while at < build.end:
        for n in range(300):
            build.writer.write(at + n * 0.1, "d", "jobs.batches", build.identity(), batch, new_number=n == 0)
        at += 120_000 + build.rng.uniform(-20_000, 20_000)


def ttl(build: Build, collections: int = 3, largest: int = 60, known: bool = True) -> None:
    """The TTL monitor: every 60 s through all collections, in passes of different size."""
    sizes = [max(1, build.rng.randrange(largest // 3, largest)) for _ in range(collections)]
    at = build.rng.uniform(0, 60_000)
    while at < build.end:
        began = at
        for number, size in enumerate(sizes):
            for _ in range(max(0, round(build.rng.gauss(size, size / 5)))):
                build.writer.write(began, "d", f"expiring.c{number}", build.identity())
                began += 0.15
            began += 2
        at += 60_000 + build.rng.uniform(0, 40)
    if known:
        build.ttl |= {f"expiring.c{number}" for number in range(collections)}


def time_series(build: Build) -> None:
    """A time-series collection: buckets inserted and updated, old ones expired every minute."""
    ns, session = "metrics.system.buckets.weather", build.session("app@admin", 10)
    for at in build.arrivals(build.rate / 3):
        build.writer.write(at, build.rng.choice("iuu"), ns, build.identity(), session)
    for at in build.arrivals(0.5):
        for n in range(5):
            build.writer.write(at + n, "u", ns, build.identity(), whole=True)
    at = 30_000.0
    while at < build.end:
        for n in range(build.rng.randrange(4, 9)):
            build.writer.write(at + n, "d", ns, build.identity())
        at += 60_000
    options = {"create": "system.buckets.weather", "expireAfterSeconds": Int64(3_600), "timeseries": {"timeField": "t"}}
    build.writer.command(1, "metrics", options)


def migrations(build: Build) -> None:
    """Chunks leave, chunks arrive, with the catch-up writes and the bookkeeping."""
    for ns, op, count in (("shard.orders", "d", 3_000), ("shard.items", "i", 2_900), ("shard.items", "u", 5),
                          ("shard.items", "d", 7)):  # fmt: skip
        at = build.rng.uniform(0.1, 0.9) * build.end
        for n in range(count):
            build.writer.write(at + n * 0.02, op, ns, build.identity(), migrated=True)
    batch = [{"op": "d", "ns": "shard.orders", "ui": UI, "o": {"_id": n}, "fromMigrate": True} for n in range(200)]
    for n in range(5):
        at = build.rng.uniform(0.1, 0.9) * build.end
        build.writer.command(at, "admin", {"applyOps": batch})
        build.writer.write(at, "d", "config.rangeDeletions", n)


def resharding(build: Build) -> None:
    """A collection is copied under a temporary name and renamed into place."""
    at = build.rng.uniform(0.2, 0.8) * build.end
    temporary = "system.resharding.0b1c"
    for n in range(2_000):
        build.writer.write(at + n * 0.1, "i", f"shard.{temporary}", build.identity(), migrated=True)
    for n in range(300):
        build.writer.write(at + 300 + n, "u", f"shard.{temporary}", build.identity())
    o = {"renameCollection": f"shard.{temporary}", "to": "shard.wide", "dropTarget": UI}
    build.writer.command(at + 2_000, "shard", o, o2={"numRecords": 2_000}, fromMigrate=True)


def capped(build: Build) -> None:
    """A capped collection that lost its oldest documents one by one."""
    for at in build.arrivals(2.0):
        build.writer.write(at, "d", "logs.ring", build.identity())
    build.capped.add("logs.ring")


def short_processes(build: Build) -> None:
    """A process every 90 s with a session of its own that updates some fifty documents."""
    at = build.rng.uniform(0, 90_000)
    while at < build.end:
        session, when = build.session("cron@admin"), at
        for _ in range(max(3, round(build.rng.gauss(55, 15)))):
            build.writer.write(when, "u", "cron.seen", build.identity(), session)
            when += build.rng.uniform(1, 4)
        at += build.rng.uniform(70_000, 110_000)


def account_removals(build: Build) -> None:
    """Users delete their accounts: a delete_many of some seven documents each, on two collections."""
    for at in build.arrivals(1 / 20):
        for ns in ("social.posts", "social.likes"):
            for n in range(min(400, max(1, round(build.rng.lognormvariate(2, 0.9))))):
                build.writer.write(at + n * 0.2, "d", ns, build.identity())


# What people do


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
) -> None:  # fmt: skip
    """Single writes one after the other by one session; a share of ``idle`` has no effect."""
    kinds = ("deletes",) if op == "d" else ("updates",)
    session = session or build.session("ann@shop")
    label = build.plan(Planned(name, (*kinds, "slow_loop"), ns, count, must, op, user=session.user))
    when = build.rng.uniform(0.3, 0.6) * build.end
    for _ in range(count):
        while build.rng.random() < idle:
            build.writer.write(when, "n", "quiet.nothing", 0, session)
            when += millis
        build.writer.write(when, op, ns, build.identity(), session, image=image, whole=whole, label=label)
        when += build.rng.uniform(0.5, 1.5) * millis


def bulk(build: Build, name: str, ns: str, count: int, op: str = "d") -> None:
    """A bulkWrite of single writes: one transaction number for all."""
    session = build.session("ann@shop")
    label = build.plan(Planned(name, ("batch",), ns, count, op=op, user=session.user))
    when = build.rng.uniform(0.3, 0.8) * build.end
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


def fan_out(build: Build, name: str, ns: str, count: int) -> None:
    """Promise.all over deleteOne: twenty sessions of a pool at once."""
    pool = [build.session("app@admin", build.rng.randrange(100)) for _ in range(20)]
    label = build.plan(Planned(name, ("fan_out",), ns, count, op="d"))
    when = build.rng.uniform(0.3, 0.8) * build.end
    for n in range(count):
        build.writer.write(when + n * 0.5, "d", ns, build.identity(), build.rng.choice(pool), label=label)


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
    around = {"lsid": build.session().lsid, "txnNumber": Int64(1), "prevOpTime": _NO_PREVIOUS}
    build.writer.command(build.rng.uniform(0.3, 0.8) * build.end, "admin", {"applyOps": inner}, label, **around)


def transaction(build: Build, name: str, ns: str, count: int, op: str = "d") -> None:
    """One transaction that fits an entry."""
    label = build.plan(Planned(name, ("transaction",), ns, count))
    inner = [{"op": op, "ns": ns, "ui": UI, "o": {"_id": n}} for n in range(count)]
    around = {"lsid": build.session("ann@shop").lsid, "txnNumber": Int64(3), "prevOpTime": _NO_PREVIOUS}
    build.writer.command(build.rng.uniform(0.3, 0.8) * build.end, "admin", {"applyOps": inner}, label, **around)


_NO_PREVIOUS = {"ts": Timestamp(0, 0), "t": Int64(-1)}
Step = Callable[[Build], None]


def _commands(build: Build) -> None:
    command(build, "drop", ("drop",), "shop.old", {"drop": "old"}, 7, o2={"numRecords": 7})
    command(build, "dropIndexes", ("dropIndexes",), "shop.indexed", {"dropIndexes": "indexed", "index": "a_1"})
    command(build, "rename", ("rename",), "shop.early", {"renameCollection": "shop.early", "to": "shop.late"})
    out = {"renameCollection": "shop.tmp.agg_out.0b1c", "to": "shop.report", "dropTarget": UI}
    command(build, "out", ("out",), "shop.report", out, 4, o2={"numRecords": 4})
    index = {"createIndexes": "sessions", "v": 2, "key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60}
    command(build, "TTL index", ("createIndexes",), "shop.sessions", index)
    command(
        build, "truncateRange", ("truncateRange",), "shop.ring", {"truncateRange": "shop.ring", "docsDeleted": 900}, 900
    )
    drop_database(build, "dropDatabase", "crm")
    user_removed(build, "dropUser")
    role_removed(build, "dropRole")
    transaction(build, "transaction of deletes", "shop.baskets", 60)


def _statements(build: Build) -> None:
    statement(build, "deleteMany of 3,000", "quiet.invoices", 3_000)
    statement(build, "deleteMany of 4", "quiet.few", 4, must="found")
    statement(build, "deleteMany of 58, slow scan", "quiet.scan", 58, gap=6)
    statement(build, "deleteMany with pauses", "quiet.slow", 2_000, pauses=(400, 6_000.0))
    statement(build, "updateMany of 600", "quiet.prices", 600, "u")
    statement(build, "updateMany by a pipeline", "quiet.stock", 900, "u", whole=True)
    statement(build, "deleteMany among an application's own deletes", "shop.orders", 700)
    statement(build, "updateMany among an application's own", "shop.users", 500, "u")


def _busy(build: Build) -> None:
    statement(build, "deleteMany of 3,000 where an application deletes", "legacy.tokens", 3_000)
    statement(build, "updateMany of 800 where an application updates", "legacy.visits", 800, "u")
    statement(build, "deleteMany where a job runs, out of step and larger", "jobs.expired", 3_000)
    statement(build, "deleteMany of 500 where accounts are removed", "social.posts", 2_500)


def _loops(build: Build) -> None:
    loop(build, "deleteOne loop", "quiet.a", 1_200)
    loop(build, "deleteOne loop where an application works", "shop.orders", 900)
    loop(build, "replaceOne loop", "quiet.b", 800, "u", whole=True)
    loop(build, "findOneAndDelete loop", "quiet.c", 300, image=True)
    loop(build, "loop with updates that change nothing", "quiet.d", 400, "u", idle=0.3)
    loop(build, "a delete a second", "quiet.e", 60, millis=1_000)
    loop(build, "deleteOne every 20 s", "quiet.f", 24, millis=20_000)
    bulk(build, "bulkWrite of 2,000 DeleteOne", "quiet.g", 2_000)
    bulk(build, "bulkWrite of 300 UpdateOne where an application works", "shop.carts", 300, "u")
    imported(build, "mongoimport --mode=upsert", "quiet.h", 2_000)
    fan_out(build, "Promise.all of deleteOne", "quiet.i", 500)
    fan_out(build, "Promise.all where an application works", "shop.events", 600)


def _sessionless_loop(build: Build) -> None:
    statement(build, "single deletes without a session, one a second", "quiet.j", 60, gap=1_000)
    batched(build, "batched deleteMany", "quiet.k", 2_000)


def _ttl_person(build: Build) -> None:
    statement(build, "deleteMany of 4 on a TTL collection", "expiring.c0", 4, at=_between(build), must="may")
    statement(build, "deleteMany of 300 on a TTL collection", "expiring.c1", 300, at=_between(build))
    statement(
        build, "deleteMany of 500 on time-series buckets", "metrics.system.buckets.weather", 500, at=_between(build)
    )


def _between(build: Build) -> float:
    """A moment in the second half of a minute-long sleep: known from the stream, not from the clock."""
    return build.rng.uniform(0.4, 0.7) * build.end


def _untellable(build: Build) -> None:
    """Acts that leave the same entries as what surrounds them."""
    statement(build, "12 documents among an application's own", "legacy.tokens", 12, must="untellable")
    loop(build, "loop in the application's own session", "shop.orders", 40, session=build.pool[0], must="untellable")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a scenario is made. ``held_out``: never looked at while the rules were tuned."""

    name: str
    steps: tuple[Step, ...]
    rate: float = 10
    minutes: float = 20
    form: str = "6.0"
    held_out: bool = False


def _background(*extra: Step) -> tuple[Step, ...]:
    return (web, *extra)


RECIPES: tuple[Recipe, ...] = (
    Recipe("nothing", (web, without_sessions, workers, ttl), 12),
    Recipe("nothing, hard", (web, account_removals, short_processes, ttl, capped), 10),
    Recipe("migration and resharding only", (web, migrations, resharding), 5),
    Recipe("commands", (web, _commands), 5),
    Recipe("statements", (web, workers, _statements), 8),
    Recipe("statements, 4.4", (_statements,), 5, form="4.4"),
    Recipe("busy collections", (web, without_sessions, workers, account_removals, _busy), 3, 30),
    Recipe("loops", (web, workers, _loops), 8),
    Recipe("loops on a quiet server", (_loops,), 5),
    Recipe("without sessions", (without_sessions, ttl, _sessionless_loop), 5),
    Recipe("TTL, time-series and a person", (web, ttl, time_series, _ttl_person), 3, 30),
    Recipe("TTL by rhythm alone", (lambda b: ttl(b, known=False), migrations, _statements), 5, 40),
    Recipe("forty TTL collections", (lambda b: ttl(b, 40, 12), _statements), 5, 30),
    Recipe("untellable", (web, lambda b: without_sessions(b, 3.0), _untellable), 10),
    Recipe("ten deletes a second", (lambda b: without_sessions(b, 10.0), _busy, _commands), 5, 15),
    Recipe("a quiet hour", (_statements, _commands), 1, 60),
    # Held out: other applications, other rates, everything at once.
    Recipe(
        "held out: everything",
        (web, without_sessions, workers, ttl, time_series, migrations, _statements, _loops, _commands),
        6,
        20,
        held_out=True,
    ),
    Recipe(
        "held out: nothing, fast",
        (lambda b: web(b, 8), lambda b: without_sessions(b, 4.0), workers, short_processes, account_removals, capped),
        25,
        12,
        held_out=True,
    ),
    Recipe(
        "held out: nothing, slow and long", (web, without_sessions, ttl, time_series, resharding), 1, 120, held_out=True
    ),
    Recipe("held out: loops, fast", (lambda b: web(b, 6), short_processes, _loops), 20, 12, held_out=True),
    Recipe(
        "held out: busy, 5 a second",
        (lambda b: without_sessions(b, 5.0), workers, account_removals, _busy),
        3,
        30,
        held_out=True,
    ),
    Recipe(
        "held out: TTL and a person",
        (lambda b: ttl(b, 6, 120), time_series, workers, _ttl_person, _commands),
        3,
        60,
        held_out=True,
    ),
    Recipe("held out: statements, 4.4", (web, _statements, _commands), 4, 20, "4.4", held_out=True),
    Recipe("held out: sessionless", (web, account_removals, _sessionless_loop, migrations), 6, 20, held_out=True),
)


def build(recipe: Recipe, seed: int) -> Scenario:
    """The oplog of a recipe. The same seed gives the same bytes."""
    rng = random.Random(f"{recipe.name}/{seed}")
    making = Build(rng, OplogWriter(BEGIN, recipe.form), recipe.minutes, recipe.rate)
    for step in recipe.steps:
        step(making)
    entries, labels, places = making.writer.stream()
    acts = []
    for label, planned in making.planned.items():
        found = labels[label]
        must = planned.must
        if must == "found" and (found[-1].t - found[0].t) > 0.4 * recipe.minutes * 60:
            must = "untellable"
        acts.append(
            Act(planned.name, planned.kinds, planned.ns, found[0], found[-1], found[0], planned.documents, must,
                planned.op, planned.user)
        )  # fmt: skip
    begin = BEGIN // 1_000
    window = Ts(begin, 1), Ts(begin + int(recipe.minutes * 60), 1)
    return Scenario(
        f"{recipe.name}, seed {seed}", entries, acts, places, window, frozenset(making.ttl), frozenset(making.capped),
        recipe.held_out, frozenset(making.unknowable),
    )  # fmt: skip
