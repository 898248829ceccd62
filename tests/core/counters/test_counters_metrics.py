"""The counters as metrics: names and labels that stay, unknown absent, a bounded number; the rule files are valid."""

from __future__ import annotations

import json
import math
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tallyglass.counters.ceiling import Consumer, ceiling_of
from tallyglass.counters.metrics import MetricFamily, SequenceSelection, families
from tallyglass.counters.snapshot import (
    Absence,
    Ceiling,
    CountersSnapshot,
    CounterTrouble,
    CounterView,
    Flag,
    Forecast,
    Grade,
    Members,
    MissingCounter,
    NumericType,
    Semantics,
)
from tallyglass.moment import Ts
from tallyglass.restore.catalogue.window import RecoverableWindow, Stretch
from tallyglass.restore.catalogue.window import families as window_families
from tallyglass.restore.drill.metrics import families as drill_families
from tallyglass.restore.drill.report import Report

NOW = datetime(2026, 11, 20, tzinfo=UTC)
EVERY = SequenceSelection()
MONITORING = Path(__file__).parents[3] / "examples" / "monitoring"


def counter(key: str, **fields: Any) -> CounterView:
    known: dict[str, Any] = {
        "key": key, "ns": "shop.counters", "id": key, "field": "seq", "shape": "manual", "library": "", "value": 5,
        "type": NumericType.INT64, "semantics": Semantics.LAST, "start": 0, "ceiling": ceiling_of(NumericType.INT64),
        "used": 0.05, "rate": 1.0, "forecast": Forecast(),
    }  # fmt: skip
    return CounterView(**(known | fields))


def by_name(*counters: CounterView, selection: SequenceSelection = EVERY, **facts: Any) -> dict[str, MetricFamily]:
    found = families(CountersSnapshot(NOW, counters, **facts), selection)
    return {family.name.removeprefix("tallyglass_"): family for family in found}


def test_unknown_values_are_left_out() -> None:
    found = by_name(counter("a", value=math.inf, used=None, rate=None))
    for name in ("last_value", "used_ratio", "rate_per_second", "exhaustion_timestamp_seconds"):
        assert found[f"sequence_{name}"].rows == ()
    assert len(found["sequence_fault"].rows) == 6
    assert all(math.isfinite(value) for family in found.values() for _, value in family.rows)
    assert "oplog_window_seconds" not in found


def test_all_that_is_exported_of_a_counter() -> None:
    band = Forecast(NOW, NOW + timedelta(1), NOW + timedelta(2), rate=2.0)
    early = Forecast(naive=NOW + timedelta(3), rate=0.5)
    row = counter(
        "orders", value=1_000, semantics=Semantics.NEXT, ceiling=Ceiling(1_099, "max"), used=0.9, forecast=band,
        crossing=early, crossing_used=0.25, flags=(Flag.FULL, Flag.RESET, Flag.GUESS), acknowledged=(Flag.RESET,),
        step=10, target="shop.orders._id", library="mongoose",
    )  # fmt: skip
    name, day = ("shop", "counters", "orders"), 86_400.0
    at, none = NOW.timestamp(), dict.fromkeys(("rewound", "stalled", "double", "behind", "unclear"), 0.0)
    gone = MissingCounter("shop.counters", "old", Absence.GONE)
    found = by_name(row, oplog_seconds=60.0, missing=(gone,), collections_seen=3, collections_looked=3)
    assert {key: dict(family.rows) for key, family in found.items()} == {
        "sequence_last_value": {name: 1_000.0},
        "sequence_remaining": {(*name, "configured"): 100.0, (*name, "int32"): 2**31 - 1 - 999.0},
        "sequence_used_ratio": {(*name, "configured"): 0.9, (*name, "int32"): 0.25},
        "sequence_rate_per_second": {name: 2.0},
        "sequence_exhaustion_timestamp_seconds": {
            (*name, "configured", bound): at + n * day for n, bound in enumerate(("early", "likely", "late"))
        },
        "sequence_naive_exhaustion_timestamp_seconds": {(*name, "int32"): at + 3 * day},
        "sequence_fault": {(*name, fault): value for fault, value in {**none, "full": 1.0}.items()},
        "sequence_info": {(*name, "certain", "shop.orders._id", "int64", "next", "10", "mongoose"): 1.0},
        "collections": {("looked",): 3.0, ("unread",): 0.0, ("pending",): 0.0},
        "sequences_missing": {("not read",): 0.0, ("gone",): 1.0, ("no longer recognised",): 0.0},
        "sequences_omitted": {(): 0.0},
        "search_complete": {(): 1.0},
        "last_success_timestamp_seconds": {(): at},
        "oplog_window_seconds": {(): 60.0},
    }


def test_both_ceilings_have_their_dates() -> None:
    band = Forecast(NOW, NOW + timedelta(1), None, rate=2.0)
    found = by_name(counter("a", forecast=band, crossing=band, crossing_used=0.5))
    rows = dict(found["sequence_exhaustion_timestamp_seconds"].rows)
    assert rows["shop", "counters", "a", "storage", "early"] == NOW.timestamp()
    consumer = counter("a", ceiling=ceiling_of(NumericType.INT64, consumers=(Consumer.INT64,)))
    assert [labels[3:] for labels, _ in by_name(consumer)["sequence_used_ratio"].rows] == [("configured",)]
    for number, ids in ({}, 1), ({"block": 10}, 10):
        remaining = dict(by_name(counter("a", crossing=band, **number))["sequence_remaining"].rows)
        assert remaining["shop", "counters", "a", "int32"] == (2**31 - 1) // ids - 5
    assert {labels[3:] for labels in rows} == {(c, b) for c in ("storage", "int32") for b in ("early", "likely")}


def test_labels_are_unique_and_hold_nothing_that_changes() -> None:
    rows = [counter(f"k{n}", id="same", field=f"f{n}", flags=(Flag.BEHIND,)) for n in range(3)]
    for family in by_name(*rows).values():
        labels = [labels for labels, _ in family.rows]
        assert len(labels) == len(set(labels))
        if family.name != "tallyglass_sequence_info":
            assert not {"grade", "target", "step"} & set(family.labels)


def test_a_sequence_is_named_by_its_document_and_as_far_as_needed_by_its_field_and_key_in_any_order() -> None:
    rows = [counter("k0", id="orders"), *(counter(f"k{n}", id="same", field=f"f{n // 3}") for n in range(1, 4))]
    expected = {"k0": "orders", "k1": "same#f0#6ab9f1eb", "k2": "same#f0#015f7e6b", "k3": "same#f1"}
    for ordered in (rows, rows[::-1]):
        named = by_name(*ordered)["sequence_last_value"].rows
        assert [labels for labels, _ in named] == [("shop", "counters", expected[row.key]) for row in ordered]
    many = replace(counter("k9", ns="shop.a.b", id="9 counters"), members=Members(9))
    assert by_name(many)["sequence_last_value"].rows == ((("shop", "a.b", "*#seq"), 5.0),)


def test_series_are_bounded_chosen_and_never_of_guesses() -> None:
    rows = [counter(f"k{n}") for n in range(50)] + [counter("guess", grade=Grade.POSSIBLE)]
    found = by_name(*rows, selection=SequenceSelection(("shop.counters k1*",), 4))
    assert [labels[2] for labels, _ in found["sequence_info"].rows] == ["k1", "k10", "k11", "k12"]
    assert found["sequences_omitted"].rows == (((), 7.0),)


def test_an_acknowledged_fault_is_zero_and_completeness_is_reported() -> None:
    row = counter("a", flags=(Flag.RESET,), acknowledged=(Flag.RESET,))
    found = by_name(row, collections_seen=10, collections_looked=6, collections_unread=1, discovering=True)
    assert all(value == 0 for _, value in found["sequence_fault"].rows)
    assert dict(found["collections"].rows) == {("looked",): 6.0, ("unread",): 1.0, ("pending",): 3.0}
    assert found["search_complete"].rows == (((), 0.0),)
    found = by_name(row, collections_seen=6, collections_looked=6, discovering=True)
    assert dict(found["collections"].rows) == {("looked",): 6.0, ("unread",): 0.0, ("pending",): 0.0}
    assert by_name(row)["search_complete"].rows == (((), 1.0),)
    lost = CounterTrouble("shard1", "Shard shard1 is not read.")
    assert by_name(row, troubles=(lost,))["search_complete"].rows == (((), 0.0),)


def test_rules_and_dashboard_ask_for_metrics_that_exist() -> None:
    band = Forecast(NOW, NOW + timedelta(1), NOW + timedelta(2), rate=2.0, naive=NOW)
    row = counter("a", forecast=band, crossing=band, crossing_used=0.5)
    now = Ts(10, 1)
    window = RecoverableWindow((), (), (Stretch(Ts(1, 1), now),), now, 1.0)
    drilled = Report("2026-11-22T08:55:07Z", "ok", "rs0", "d1", "/b", "Restored.")
    of_restore = (*window_families(window, 0), *drill_families(drilled, drilled))
    exported = {family.name: family for family in (*by_name(row, oplog_seconds=1.0).values(), *of_restore)}
    dashboard = json.loads((MONITORING / "tallyglass-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    # The rules are YAML, which the standard library does not read: a line that names a metric is part of a query.
    lines = (MONITORING / "tallyglass-rules.yml").read_text().splitlines()
    queries += [line for line in lines if "tallyglass_" in line]
    asked = [found for query in queries for found in re.findall(r"(tallyglass_\w+)(?:\{([^}]*)\})?", query)]
    assert len(asked) >= 15
    variables = {f"${variable['name']}" for variable in dashboard["templating"]["list"]}
    for name, matchers in asked:
        family = exported[name]
        for label, words in re.findall(r'(\w+)[!=]?=~?"([^"]*)"', matchers):
            if words.startswith("$"):
                assert words in variables
                assert label in (*family.labels, "instance"), (name, label)
                continue
            place = family.labels.index(label)
            assert set(words.split("|")) <= {labels[place] for labels, _ in family.rows}, (name, label)
    labels = {label for family in exported.values() for label in family.labels}
    named = r"(?:by|without|on|ignoring) \(([^)]*)\)"
    assert {label for query in queries for found in re.findall(named, query) for label in found.split(", ")} <= labels


@pytest.mark.long
@pytest.mark.needs("promtool")
def test_the_rules_fire_as_they_should() -> None:
    for words in (["check", "rules", "tallyglass-rules.yml"], ["test", "rules", "tallyglass-rules-test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=MONITORING, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
