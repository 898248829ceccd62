"""Which statements of the server's log may be acts of people."""

from __future__ import annotations

import pytest

from tallyglass.evidence.book import Book, Coverage
from tallyglass.evidence.facts import Client, Statement
from tallyglass.oplog.incidents.habits import Habits

BEGAN, ENDED = 1_795_880_000_000, 1_795_880_000_014


@pytest.mark.parametrize(
    ("many", "in_session", "is_act"),
    [(True, False, True), (True, None, True), (True, True, False), (False, None, False), (False, False, False)],
)
def test_a_statement_whose_session_the_log_cut_off_carries_none_if_it_may_change_many(
    many: bool, in_session: bool | None, is_act: bool
) -> None:
    book = Book()
    book.coverage["m"] = [Coverage(BEGAN - 600_000, ENDED + 600_000)]
    habits = Habits(book)
    client = Client("ann@admin", "mongosh 2.5.6", "10.0.0.1:1", "", "conn1")
    one = Statement("d", "shop.orders", client, BEGAN, ENDED, 500, in_session=in_session, many=many, shape=7)
    assert habits.note(one) is is_act
    assert [run.documents for run in habits.acts()] == ([500] if is_act else [])
