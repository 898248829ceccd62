"""Every verdict about some random families stays as it was approved: see ``corpus/oplog_families.py``. And where two of
the rules behind them begin and end."""

from __future__ import annotations

import pytest

from corpus.oplog_families import VERDICTS, verdicts
from tallyglass.oplog.incidents.burst import Burst
from tallyglass.oplog.incidents.id_order import IdOrder
from tallyglass.oplog.incidents.verdict import Finding, Form, _scattered, _take_beginning


def test_verdicts_about_random_families_are_as_they_were_approved() -> None:
    found, approved = list(verdicts()), VERDICTS.read_text().split("\n")
    differing = [(now, before) for now, before in zip(found, approved, strict=False) if now != before]
    assert differing[:3] == []
    assert len(found) == len(approved)


def at(first: int, last: int, documents: int, neighbours: int | None = None) -> Burst:
    """Documents that were written from one millisecond to another."""
    order = None if neighbours is None else IdOrder(("number", 1), ("number", 9), 1, neighbours, frozenset())
    return Burst(first, last, first, last, documents, documents, _order=order)


JOB, ODD = (7, 5), (20, 0)
"""The documents of a run of a job, and how many of those compared are neighbours; and those of a person's filter."""


@pytest.mark.parametrize(
    ("jobs", "found"),
    [
        ([JOB] * 9 + [ODD], [9]),
        ([JOB] * 8 + [ODD], []),  # one in nine is no exception
        ([JOB] * 9 + [(19, 0)], []),
        ([JOB] * 9 + [(20, 1)], []),
        ([ODD] + [JOB] * 17 + [ODD], []),
        ([ODD] + [JOB] * 18 + [ODD], [0, 19]),
        ([JOB] * 18 + [(20, 0), (20, 4)], [18]),  # one of five is another's: no neighbours either
        ([JOB] * 17 + [(20, 0), (20, 4)], []),
        ([JOB] * 9 + [ODD, (7, 6)], [9]),
        ([JOB] * 8 + [(6, 5), ODD], []),  # of so few nothing is known
        ([JOB] * 8 + [(7, None), ODD], []),
    ],
)
def test_of_many_runs_whose_documents_are_neighbours_those_of_a_person_are_told(
    jobs: list[tuple[int, int | None]], found: list[int]
) -> None:
    bursts = [at(n, n, documents, neighbours) for n, (documents, neighbours) in enumerate(jobs)]
    assert [one.first for one in _scattered(bursts)] == found


@pytest.mark.parametrize(
    ("before", "begins", "documents"),
    [
        ([(750, 750, 9)], 750, 49),
        ([(749, 749, 9)], 1_000, 40),
        ([(750, 750, 10)], 1_000, 40),  # a quarter of it is a statement of its own
        ([(100, 750, 1), (800, 810, 9)], 100, 50),
        ([(100, 749, 1), (800, 810, 9)], 800, 49),
        ([(700, 750, 12), (800, 810, 9)], 700, 61),  # less than a quarter of what it is by then
        ([(750, 760, 1), (800, 810, 10)], 1_000, 40),  # nothing before what is not its own
        ([(90, 750, 1), (800, 810, 9)], 800, 49),  # of another row
        ([(91, 750, 1), (800, 810, 9)], 91, 50),
    ],
)
def test_what_was_written_just_before_an_act_is_its_beginning(
    before: list[tuple[int, int, int]], begins: int, documents: int
) -> None:
    act, other = at(1_000, 1_100, 40), Finding(at(0, 90, 400), Form.MANY)
    row = Finding(act, Form.MANY)
    _take_beginning(row, [other, row], [*(at(*one) for one in before), act, at(1_200, 1_200, 1)])
    assert (row.burst.first, row.burst.last, row.burst.documents) == (begins, 1_100, documents)
    assert (act.first, act.documents) == (1_000, 40)
