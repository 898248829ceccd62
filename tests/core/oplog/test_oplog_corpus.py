"""Recall, precision and the error of ``point`` on the labelled corpus; a third of it was held out of all tuning."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import bson
import pytest

from builders.memory_mongo import matches
from corpus.oplog_build import BEGIN, Build
from corpus.oplog_corpus import RECIPES, Recipe, build
from corpus.oplog_entries import OplogWriter, Session
from corpus.oplog_random import random_scenario
from corpus.oplog_score import Score, add, incidents_of
from corpus.oplog_situations import SITUATIONS
from tallyglass.oplog.incidents.grouper import FINISHED_LIMIT, ROUTINE_LIMIT, Grouper
from tallyglass.oplog.incidents.incident import MATCH
from tallyglass.oplog.snapshot import Incident

LEAST = {False: (1.0, 0.95, 0.98), True: (0.98, 0.95, 0.97)}
"""Recall, precision and the share of exact points: of what the rules were tuned on, and of what was held out."""


def shape(incidents: tuple[Incident, ...]) -> list[tuple[Any, ...]]:
    return [(i.kind, i.ns, i.first, i.last, i.ops, i.documents, i.point) for i in incidents if not i.routine]


QUICK = {
    "commands", "loops", "accidents among young trims", "held out: other young trims",
    "busy collections", "migration and resharding only", "TTL, time-series and a person",
    "held out: sessionless", "held out: statements, 4.4", "held out: loops, fast",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(1, 2), pytest.param(range(1, 7), marks=pytest.mark.soak, id="all of it")])
@pytest.mark.parametrize("held_out", [False, True], ids=["tuned", "held out"])
def test_incidents_are_found_among_routine(held_out: bool, seeds: range, capsys: pytest.CaptureFixture[str]) -> None:
    score, entries = Score(), 0
    for recipe in RECIPES:
        if recipe.held_out is not held_out or (len(seeds) == 1 and recipe.name not in QUICK):
            continue
        for seed in seeds:
            scenario = build(recipe, seed)
            entries += len(scenario.entries)
            add(score, scenario, incidents_of(scenario, backward=seed % 2 == 0))
    with capsys.disabled():
        name = "held out" if held_out else "tuned"
        print(
            f"\n{name}: {entries:,} entries, recall {score.recall:.3f} of {score.wanted} acts, "
            f"precision {score.precision:.3f} of {score.rows} rows, point exact {score.exact:.3f}, "
            f"off by {sorted(error for error in score.point_errors if error)}"
        )
    recall, precision, exact = LEAST[held_out]
    assert score.wanted >= 20
    assert score.recall >= recall, score.missed
    assert score.precision >= precision, score.false
    assert score.exact >= exact, score.off


# In 158, half of what is dense is a bulkWrite, and half a slow loop of the same user.
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(1), id="one"),
        pytest.param([*range(1, 16), 158], marks=pytest.mark.long, id="more"),
        pytest.param(range(16, 500), marks=pytest.mark.soak, id="all of it"),
    ],
)
def test_worlds_from_a_seed_hide_nothing_and_alarm_for_nothing(seeds: Sequence[int]) -> None:
    score = Score()
    for seed in seeds:
        scenario = random_scenario(seed)
        found = incidents_of(scenario, backward=seed % 2 == 0)
        add(score, scenario, found)
        assert seed % 6 or shape(incidents_of(scenario, batch=171)) == shape(found)
    assert score.recall >= (1 if len(seeds) < 100 else 0.995), score.missed
    # Listed as of low confidence: a job in turn in collections whose names differ by a number, and what just started.
    false = [one for one in score.false if "in collections with such names" not in one and "young.own" not in one]
    assert len(false) <= 0.1 * score.rows, false
    assert len(score.alarms) <= 0.005 * score.rows, score.alarms
    assert not [error for error in score.point_errors if error > 0], score.off
    assert len(score.inexact) <= 0.005 * score.rows, score.inexact


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(48, 49), id="some"), pytest.param(range(49, 68), marks=pytest.mark.long, id="more")],
)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_each_rare_situation_is_listed_exactly(situation: Callable[[Build], None], seeds: range) -> None:
    score = Score()
    for seed in seeds:
        rng = random.Random(f"{situation.__name__}/{seed}")
        writer = OplogWriter(BEGIN, rng.choice(("6.0", "4.4")))
        build = Build(rng, writer, rng.choice((12, 25, 50)), 5, access_control=rng.random() < 0.7)
        situation(build)
        for _ in range(rng.randrange(3)):
            writer.delay(rng.uniform(0, build.end), rng.uniform(25, 900))
        scenario = build.finished(f"{situation.__name__}, seed {seed}")
        add(score, scenario, incidents_of(scenario, backward=seed % 2 == 0))
    assert (score.missed, score.alarms, score.inexact) == ([], [], [])
    assert score.false_rows <= 3 * len(seeds)  # of an application that was just started
    assert not [error for error in score.point_errors if error > 0], score.off
    if situation.__name__ != "two_loops":  # one of them is found in the row of the other, too
        assert not [error for error in score.point_errors if error < -40], score.off  # documents of a pass at most


@pytest.mark.parametrize(("name", "rate"), [("loops", 2), ("TTL, time-series and a person", 1)])
def test_direction_and_size_of_batches_do_not_matter(name: str, rate: float) -> None:
    (recipe,) = [one for one in RECIPES if one.name == name]
    scenario = build(Recipe(recipe.name, recipe.steps, rate, 20), 5)
    forward = shape(incidents_of(scenario))
    assert shape(incidents_of(scenario, backward=True)) == forward
    assert shape(incidents_of(scenario, batch=171)) == forward


def test_what_a_server_is_asked_for_is_all_that_incidents_are_made_of() -> None:
    writer = OplogWriter(BEGIN)
    for number in range(20):
        writer.write(number * 500, "i", "shop.orders", number)
    writer.entry(20_000, "n", "shop.orders", {"msg": ""}, o2={"shardCollection": "shop.orders"})
    (commands,) = [one for one in RECIPES if one.name == "commands"]
    for entries in (writer.stream()[0], build(Recipe("", commands.steps, 0.05, 20), 1).entries):
        asked = [raw for raw in entries if matches(bson.decode(raw), MATCH)]
        found = []
        for some in (entries, asked):
            grouper = Grouper()
            grouper.feed_batch(b"".join(some))
            found.append(shape(grouper.incidents()))
        assert found[0] == found[1] != []
        assert len(asked) < len(entries)


@pytest.mark.long
def test_memory_is_bounded_over_namespaces_and_sessions() -> None:
    rng, writer = random.Random(7), OplogWriter(BEGIN)
    sessions = [Session(rng.randbytes(16)) for _ in range(300)]
    for n in range(8_000):
        ns = f"tenant{rng.randrange(2_000)}.things"
        writer.write(n * 500, rng.choice("ud"), ns, n, rng.choice(sessions) if n % 3 else None)
    entries, _, _ = writer.stream()
    grouper = Grouper()
    tracemalloc.start()
    for at in range(0, len(entries), 500):
        grouper.feed_batch(b"".join(entries[at : at + 500]))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(grouper.incidents()) <= FINISHED_LIMIT + ROUTINE_LIMIT
    assert size < 24_000_000


@pytest.mark.parametrize("days", [0.5, pytest.param(3, marks=pytest.mark.soak)])
def test_routine_of_days_does_not_push_out_the_one_delete_of_four(days: float) -> None:
    """TTL collections, a pass a minute; among them a deleteMany of 4, a dropped index and a removed user."""
    rng, writer = random.Random(3), OplogWriter(BEGIN)
    passes, mistakes = int(days * 24 * 60), days * 24 * 60 * 60_000 * 0.4
    for minute in range(passes):
        for number in range(4 if days < 1 else 20):
            at = minute * 60_000 + number * 2_000
            for n in range(rng.randrange(2, 5)):
                writer.write(at + n, "d", f"expiring.c{number}", n)
    for n in range(4):
        writer.write(mistakes + n, "d", "shop.invoices", n, label="delete")
    writer.command(mistakes + 10_000, "shop", {"dropIndexes": "orders", "index": "a_1"}, "index")
    writer.entry(mistakes + 20_000, "d", "admin.system.users", {"_id": "shop.ann"}, "user")
    for n in range(3_000):
        writer.write(mistakes + 30_000 + n * 0.1, "u", "shop.prices", n, label="update")
    entries, labels, _ = writer.stream()
    for backward in (False, True):
        grouper, places = Grouper(), range(0, len(entries), 5_000)
        for at in reversed(places) if backward else places:
            grouper.feed_batch(b"".join(entries[at : at + 5_000]))
        found = {one.kind: one for one in grouper.incidents() if not one.routine}
        assert {kind: one.first for kind, one in found.items()} == {
            "deleteMany": labels["delete"][0],
            "dropIndexes": labels["index"][0],
            "users": labels["user"][0],
            "updateMany": labels["update"][0],
        }
        assert grouper.left_out == 0
