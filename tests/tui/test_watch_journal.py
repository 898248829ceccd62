"""What ``tallyglass watch`` prints of a list of incidents that grows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, Harm, Incident, IncidentScan
from tallyglass_tui.cli.incident_journal import IncidentJournal

NOW = datetime(2026, 7, 28, 5, tzinfo=UTC)
START = Ts(1_000, 0)
SEEN = Incident(
    1, "deleteMany", "deleteMany on shop.orders", "shop.orders", Harm.LOSS, Ts(1_001, 1), Ts(1_001, 9), NOW, NOW, 9, 9,
    open=True,
)  # fmt: skip


def printed(journal: IncidentJournal, *incidents: Incident, done: bool = True) -> list[Incident]:
    return journal.news(IncidentScan(incidents, 10, None, done))


def test_an_incident_is_printed_when_seen_when_named_and_when_ended() -> None:
    journal = IncidentJournal(START)
    grown = replace(SEEN, last=Ts(1_002, 1), ops=20, documents=20)
    named = replace(grown, evidence=Authorship(Certainty.UNIQUE, (Candidate("ann"),)), documents=30)
    ended = replace(named, open=False, documents=40)
    assert printed(journal, SEEN, done=False) == [], "the past was not read yet"
    shown = [printed(journal, one) for one in (SEEN, grown, named, replace(named, documents=35), ended, ended)]
    assert shown == [[SEEN], [], [named], [], [ended], []]


def test_what_was_there_before_and_what_may_be_routine_is_not_printed() -> None:
    journal = IncidentJournal(START)
    unsure = replace(SEEN, confidence="low")
    left_out = [
        replace(SEEN, first=Ts(900, 1), last=START),
        replace(SEEN, reason="recurs"),
        replace(unsure, harm=Harm.CHANGE),
    ]
    assert printed(journal, *left_out, unsure) == [unsure], "lost documents are printed even if it is not sure"


def test_several_connections_of_one_application_are_named_together() -> None:
    one, other = Candidate(application="shop", connection="conn1"), Candidate(application="shop", connection="conn2")
    told = {
        Authorship(Certainty.EXACT, (one,)).by,
        Authorship(Certainty.EXACT, (one, other)).by,
        Authorship(Certainty.UNIQUE, (one, Candidate("ann"), other)).by,
        Authorship(Certainty.AMBIGUOUS, (one, other)).by,
        Authorship(Certainty.NONE).by,
    }
    assert told == {"shop", "shop, 2 connections", "shop and 2 more", "2 possible", ""}
