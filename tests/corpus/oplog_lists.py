"""The lists of incidents of some worlds, in full: what changes a row in any way shows in ``incident_lists.txt``.

``PYTHONPATH=tests python -m corpus.oplog_lists`` writes that file again. Read its difference before you commit it: each
line is a change that users see.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from itertools import pairwise
from pathlib import Path

from corpus.oplog_authors import authored
from corpus.oplog_build import BEGIN, Build, Scenario
from corpus.oplog_corpus import RECIPES, Recipe, build
from corpus.oplog_entries import OplogWriter
from corpus.oplog_random import random_scenario
from corpus.oplog_score import incidents_of
from corpus.oplog_situations import SITUATIONS
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.moment import Ts
from tallyglass.oplog.incidents.across_shards import combine
from tallyglass.oplog.incidents.report import document_of
from tallyglass.oplog.snapshot import StatementPart
from tallyglass.report.markdown import to_markdown

LISTS = Path(__file__).resolve().parents[1] / "core" / "oplog" / "incident_lists.txt"
SEEDS = (1_000, 1_006, 1_023, 1_051, 1_082, 1_115)
"""Of worlds with few entries."""

DEPLOYMENT = Deployment(Kind.REPLICA_SET, "6.0.5", "rs0")
RATE = 0.05
"""How much the applications of the labelled recipes write, of what they write there."""


def lists() -> Iterator[str]:
    """The lines of the file."""
    by_seed = {seed: incidents_of(random_scenario(seed), backward=seed % 2 == 0) for seed in SEEDS}
    for seed, rows in by_seed.items():
        yield from _block(f"world {seed}", rows)
    for one, other in pairwise(list(by_seed)[:4]):
        yield from _block(f"worlds {one} and {other} as two shards", combine({"a": by_seed[one], "b": by_seed[other]}))
    for scenario in (*_situations(), *_recipes()):
        yield from _block(scenario.name, incidents_of(scenario))
    cases = dict(authored())
    for case, rows in cases.items():
        yield from _block(f"authors {case}", rows)
    for one, other in pairwise(cases):
        if one % 3 == 0:
            yield from _block(f"authors {one} and {other} as two shards", combine({"a": cases[one], "b": cases[other]}))
    for case, rows in list(cases.items())[::12]:
        report = document_of(rows[0], rows, DEPLOYMENT, rows[0].last.time, values=case % 24 == 0)
        yield from _block(f"report {case}", to_markdown(replace(report, made="")).splitlines())


def _situations() -> Iterator[Scenario]:
    for situation in SITUATIONS:
        made = Build(random.Random(situation.__name__), OplogWriter(BEGIN, "6.0"), 12, 5, access_control=True)
        situation(made)
        yield made.finished(situation.__name__)


def _recipes() -> Iterator[Scenario]:
    for one in RECIPES:
        if one.minutes <= 20:
            yield build(Recipe(one.name, one.steps, RATE, one.minutes, one.form), 1)


def _block(name: str, rows: Iterable[object]) -> Iterator[str]:
    yield f"# {name}"
    yield from map(_text, rows)
    yield ""


def _text(value: object) -> str:
    """A value in short; of a row, or of what it holds, all fields that differ from their default."""
    match value:
        case Enum():
            return str(value.value)
        case datetime():
            return f"{value:%d %H:%M:%S.%f}"[:-3]
        case StatementPart(first, last, documents):
            return f"{first}..{last}: {documents}"
        case Ts():
            return str(value)
        case tuple():
            return f"({', '.join(map(_text, value))})"
    if is_dataclass(value) and not isinstance(value, type):
        named = ((one.name, getattr(value, one.name), one.default) for one in fields(value))
        return " | ".join(f"{name}={_text(own)}" for name, own, default in named if own != default)
    text = str(value)
    return text[:8] if len(text) >= 32 and text.isalnum() else text


if __name__ == "__main__":
    LISTS.write_text("\n".join(lists()))
