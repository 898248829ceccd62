"""What the numbers of a collection's documents are."""

from __future__ import annotations

from typing import Any

from tallyglass.counters.recognise.recogniser import Recogniser
from tallyglass.mongo.gateway import Namespace

COUNTS: dict[str, Any] = {"_id": 1, "name": "polls_question", "auto": {"field_names": ["id"], "seq": 8}, "fields": {}}
COUNTS_NOTHING = COUNTS | {"name": "polls_vote", "auto": {"field_names": []}}


def test_documents_of_one_form_are_recognised_each_by_what_is_nested_in_them() -> None:
    for order in ((COUNTS, COUNTS_NOTHING), (COUNTS_NOTHING, COUNTS)):
        recogniser = Recogniser(Namespace("shop", "__schema__"))
        found = {row["name"]: [match.path for match in recogniser.matches(row)] for row in order}
        assert found == {"polls_question": ["auto.seq"], "polls_vote": []}
