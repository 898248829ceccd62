"""The labelled corpus: oplogs with what a person did in them, and what is routine. Format: oplog_corpus.md."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from corpus.oplog_acts import (
    batched,
    bulk,
    command,
    drop_database,
    fan_out,
    imported,
    loop,
    role_removed,
    statement,
    transaction,
    user_removed,
)
from corpus.oplog_build import BEGIN, MINUTE, Build, Scenario
from corpus.oplog_entries import UI, OplogWriter
from corpus.oplog_routine import (
    account_removals,
    capped,
    hourly,
    migrations,
    other_trims,
    resharding,
    short_processes,
    time_series,
    ttl,
    web,
    without_sessions,
    workers,
    young_trims,
)

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


def _among_trims(build: Build) -> None:
    """Accidents on the collections that an application trims."""
    late = build.end - 3 * MINUTE
    for n, size in enumerate((5, 30)):
        statement(build, "deleteMany among trims without sessions", f"young.plain{size}", 2_000, at=late + n * 9_000)
        statement(build, "deleteMany among trims by sessions", f"young.s{size}x1", 900, at=late + n * 9_500 + 700)
    loop(build, "deleteOne loop among trims", "young.s30x6", 400, at=late + 5_000)
    loop(build, "short deleteOne loop among trims", "young.s30x1", 90, at=late - 40_000)
    statement(build, "updateMany among sweeps", "young.sweep30", 900, "u", at=late + 11_000)


def _among_other_trims(build: Build) -> None:
    late = build.end - 4 * MINUTE
    statement(build, "deleteMany among other trims", "other.c", 1_200, at=late)
    loop(build, "deleteOne loop among other trims", "other.a", 500, at=late + 33_000)
    loop(build, "updateOne loop among other trims", "other.d", 350, "u", at=late + 13_000)
    bulk(build, "bulkWrite among other trims", "other.b", 2_000, at=late)


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
    Recipe("young application that trims", (young_trims,), 1, 1_800),
    Recipe("accidents among young trims", (young_trims, _among_trims), 1, 1_800),
    Recipe("each hour", (hourly,), 1, 1_440),
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
    Recipe("held out: other young trims", (web, other_trims, _among_other_trims), 1, 600, held_out=True),
    Recipe("held out: sessionless", (web, account_removals, _sessionless_loop, migrations), 6, 20, held_out=True),
)


def build(recipe: Recipe, seed: int) -> Scenario:
    """The oplog of a recipe. The same seed gives the same bytes."""
    rng = random.Random(f"{recipe.name}/{seed}")
    making = Build(rng, OplogWriter(BEGIN, recipe.form), recipe.minutes, recipe.rate)
    for step in recipe.steps:
        step(making)
    return making.finished(f"{recipe.name}, seed {seed}", held_out=recipe.held_out)
