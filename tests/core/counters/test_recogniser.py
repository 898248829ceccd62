"""What the numbers of a collection's documents are."""

from __future__ import annotations

from typing import Any

from tallyglass.counters.recognise.config import Rule
from tallyglass.counters.recognise.recogniser import Recogniser
from tallyglass.mongo.gateway import Namespace

COUNTS: dict[str, Any] = {"_id": 1, "name": "polls_question", "auto": {"field_names": ["id"], "seq": 8}, "fields": {}}
COUNTS_NOTHING = COUNTS | {"name": "polls_vote", "auto": {"field_names": []}}


def test_documents_of_one_form_are_recognised_each_by_what_is_nested_in_them() -> None:
    for order in ((COUNTS, COUNTS_NOTHING), (COUNTS_NOTHING, COUNTS)):
        recogniser = Recogniser(Namespace("shop", "__schema__"))
        found = {row["name"]: [match.path for match in recogniser.matches(row)] for row in order}
        assert found == {"polls_question": ["auto.seq"], "polls_vote": []}


def test_several_counters_of_a_document_are_told_apart_by_their_names_or_their_fields() -> None:
    found = []
    rules = tuple(Rule(Namespace("shop", "objects"), field=name, number=n) for n, name in enumerate(("a", "b.*"), 1))
    forum = {"_id": 7, "_key": "global", "nextPid": 812, "nextUid": 33}
    settings: dict[str, Any] = {"_id": "ids", "a": 1, "b": {"c": 2}}
    for row, given in ((forum, ()), (settings, rules), (settings, rules[:1])):
        recogniser = Recogniser(Namespace("shop", "objects"), given)
        matches = recogniser.matches(row)
        found.append([one.id for match in matches if (one := recogniser.identify(row, match, matches))])
    assert found == [["global.nextPid", "global.nextUid"], ["ids.a", "ids.b.c"], ["ids"]]
