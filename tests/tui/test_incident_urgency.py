"""What comes first in a list of incidents, and how it is marked."""

from __future__ import annotations

from datetime import UTC, datetime

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan
from tallyglass_tui.shell.incidents import by_urgency, counts_in_words, mark_of

NOW = datetime(2026, 7, 28, 5, tzinfo=UTC)


def incident(number: int, harm: Harm, confidence: str = "high", reason: str = "") -> Incident:
    ts = Ts(1_000 + number, 1)
    return Incident(
        number, "updates", "", "shop.orders", harm, ts, ts, NOW, NOW, 9, 9, confidence=confidence, reason=reason
    )


def test_what_an_application_may_have_done_comes_after_what_a_person_did() -> None:
    loss, unsure_loss = incident(1, Harm.LOSS), incident(2, Harm.LOSS, "low")
    change, unsure = incident(3, Harm.CHANGE, "medium"), incident(4, Harm.CHANGE, "low")
    definition, routine = incident(5, Harm.DEFINITION), incident(6, Harm.LOSS, reason="recurs")
    ordered = [unsure_loss, loss, change, definition, unsure, routine]
    assert by_urgency([routine, unsure, definition, change, loss, unsure_loss]) == ordered
    assert [mark_of(one)[0] for one in ordered] == ["! ", "!!", "! ", "~ ", "? ", "  "]
    words = [text for text, _ in counts_in_words(IncidentScan(tuple(ordered), 9, None, done=True))]
    assert words == ["2 losses", "1 mass change", "1 definition", "1 not sure"]
