"""The index of statements finds what a look at each of them would."""

from __future__ import annotations

import random

from tallyglass.evidence.book import Book, Coverage
from tallyglass.evidence.facts import Client, Statement


def test_statements_of_a_time_a_session_and_a_connection() -> None:
    rng, book, every = random.Random(7), Book(limit=150), list[Statement]()
    clients = [Client(connection=f"conn{n}", address="10.0.0.1:1") for n in range(3)]
    for n in range(400):
        ended = n * 5 + rng.randrange(40)
        one = Statement(
            rng.choice("du"), f"shop.c{rng.randrange(2)}", rng.choice(clients), ended - rng.choice((0, 3, 200)), ended,
            1, session=bytes([rng.randrange(3)]),
        )  # fmt: skip
        every.append(one)
        book.add_statement(one)
        if n % 40:
            continue
        first = ended - rng.randrange(400)
        last = first + rng.randrange(200)
        near = [one for one in every[-150:] if one.began <= last and first <= one.ended]
        near.sort(key=lambda one: one.ended)
        assert book.statements("shop.c0", "d", first, last) == [
            one for one in near if (one.ns, one.op) == ("shop.c0", "d")
        ]
        assert book.statements_of(b"\1", "shop.c1", first, last) == [
            one for one in near if one.session == b"\1" and one.ns == "shop.c1"
        ]
        assert book.beside(clients[2], first, last) == [one for one in near if one.client == clients[2]]
    assert book.forgotten == max(one.ended for one in every[:-150])


def test_the_longest_time_that_was_read_without_a_gap_covers_a_moment() -> None:
    book = Book()
    long, short, late = Coverage(10, 100), Coverage(40, 60), Coverage(50, 120)
    book.coverage = {"a:1": [long], "b:1": [short, late], "c:1": [Coverage()]}
    cases = {(40, 60): long, (50, 60): long, (50, 110): late, (10, 100): long, (9, 20): None, (0, 0): Coverage()}
    assert {span: book.covering(*span) for span in cases} == cases
    assert {span: book.covers(*span) for span in [(50, 120), (50, 121)]} == {(50, 120): True, (50, 121): False}
    book.forgotten = 50
    assert not book.covers(50, 60)
    assert book.covers(51, 60)
