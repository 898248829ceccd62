"""What runs on any larger installation: applications, jobs, TTL, migrations."""

from __future__ import annotations

from bson import Int64

from corpus.oplog_build import MINUTE, Build
from corpus.oplog_entries import UI


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


def trims(
    build: Build, ns: str, size: int, every: float, *, since: float = 7, sessions: int = 1, op: str = "d",
    even: bool = False,
) -> None:  # fmt: skip
    """An application started ``since`` minutes ago that removes (or marks) its oldest documents every few seconds.

    One bulkWrite of ``size`` at a time, by one of a few sessions that also write elsewhere (six do nothing else);
    without sessions a deleteMany or updateMany. ``every`` is in seconds, at random unless ``even``.
    """
    pool = [build.session("app@admin", build.rng.randrange(200)) for _ in range(sessions)]
    at = build.end - since * MINUTE
    while at < build.end - 1_000:
        session = build.rng.choice(pool) if pool else None
        elsewhere = build.rng.choice((0, 0, 1, 2, 3, 9, 40)) if sessions < 6 else 0
        for n in range(size if even else max(2, round(build.rng.gauss(size, size / 6)))):
            build.writer.write(at + n * 0.1, op, ns, build.identity(), session, new_number=0 if n else 1 + elsewhere)
        at += every * 1_000 * (1 if even else build.rng.uniform(0.4, 1.6))


def young_trims(build: Build) -> None:
    """Trims of five, thirty and three hundred, by one session, by several and by none; marks instead of deletes."""
    for size, sessions, every in ((5, 1, 3), (30, 1, 3), (30, 6, 3), (300, 4, 6)):
        trims(build, f"young.s{size}x{sessions}", size, every, sessions=sessions)
        trims(build, f"young.marks{size}x{sessions}", size, every, sessions=sessions, op="u")
    for size, every in ((5, 4), (30, 4), (300, 10)):
        trims(build, f"young.plain{size}", size, every, sessions=0)
        trims(build, f"young.sweep{size}", size, 60, sessions=0, op="u", since=30, even=True)


def other_trims(build: Build) -> None:
    """Another application of that kind, at other paces."""
    trims(build, "other.a", 12, 1.5, sessions=3, since=11)
    trims(build, "other.b", 80, 10, sessions=2, since=25)
    trims(build, "other.c", 50, 12, sessions=0, since=15)
    trims(build, "other.d", 40, 5, sessions=2, op="u", since=6)


def hourly(build: Build) -> None:
    """Jobs that run each hour: a deleteMany, an updateMany, and a process with a session of its own."""
    at = build.rng.uniform(0, 600_000)
    while at < build.end:
        session = build.session("cron@admin")
        for n in range(build.rng.randrange(300, 400)):
            build.writer.write(at + n * 0.2, "d", "hourly.logs", build.identity())
            build.writer.write(at + 20_000 + n * 0.2, "u", "hourly.flags", build.identity())
            build.writer.write(at + 40_000 + n * 1.5, "d", "hourly.drafts", build.identity(), session)
        at += 3_600_000 + build.rng.uniform(-1_500, 1_500)
