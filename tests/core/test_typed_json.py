"""Tuples of fixed length as JSON, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tallyglass.moment import ZERO, Ts
from tallyglass.typed_json import Misfit, built, plain


class Place(NamedTuple):
    db: str
    number: int


@dataclass(frozen=True)
class Row:
    place: Place
    pair: tuple[str, float]
    many: tuple[tuple[int, bool], ...] = ()
    at: Ts = ZERO


def test_a_record_with_tuples_comes_back_as_it_was() -> None:
    row = Row(Place("shop", 3), ("a", 0.5), ((1, True), (2, False)))
    assert built(Row, json.loads(json.dumps(plain(row))), "row") == row


@pytest.mark.parametrize("change", [{"place": ["shop"]}, {"pair": ["a", "b"]}, {"pair": ["a", 1.0, 2.0]}])
def test_a_tuple_of_another_length_or_type_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Misfit):
        built(Row, plain(Row(Place("shop", 3), ("a", 0.5))) | change, "row")
