"""What comes first in a list of incidents, and how it is marked."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan
from tallyglass_tui.cli import incidents
from tallyglass_tui.cli.incidents import as_table
from tallyglass_tui.incidents.fold import Fold, fold
from tallyglass_tui.shell.incidents import by_urgency, counts_in_words, mark_of

NOW = datetime(2026, 7, 28, 5, tzinfo=UTC)


def incident(number: int, harm: Harm, confidence: str = "high", reason: str = "", ns: str = "shop.orders") -> Incident:
    ts, title = Ts(1_000 + number, 1), f"updates on {ns}"
    return Incident(number, "updates", title, ns, harm, ts, ts, NOW, NOW, 9, 9, confidence=confidence, reason=reason)


def test_what_an_application_may_have_done_comes_after_what_a_person_did() -> None:
    loss, unsure_loss = incident(1, Harm.LOSS), incident(2, Harm.LOSS, "low")
    change, unsure = incident(3, Harm.CHANGE), incident(4, Harm.CHANGE, "low")
    definition, routine = incident(5, Harm.DEFINITION), incident(6, Harm.LOSS, reason="recurs")
    ordered = [unsure_loss, loss, change, definition, unsure, routine]
    assert by_urgency([routine, unsure, definition, change, loss, unsure_loss]) == ordered
    assert [mark_of(one)[0] for one in ordered] == ["! ", "!!", "! ", "~ ", "? ", "  "]
    words = [text for text, _ in counts_in_words(IncidentScan(tuple(ordered), 9, None, done=True))]
    assert words == ["2 losses", "1 mass change", "1 definition", "1 not sure"]


def test_changes_of_one_kind_that_are_not_sure_are_one_row_until_unfolded() -> None:
    loss, slow = incident(1, Harm.LOSS, "low"), replace(incident(2, Harm.CHANGE, "low"), kind="slow_loop")
    unsure = [incident(number, Harm.CHANGE, "low", ns=f"shop.c{number}") for number in (3, 5, 6, 7)]
    found = [loss, slow, unsure[0], incident(4, Harm.CHANGE), *unsure[1:]]
    rows = fold(found)
    assert [row.key if isinstance(row, Fold) else row.number for row in rows] == [1, 2, "\0updates/", 4]
    (folded,) = (row for row in rows if isinstance(row, Fold))
    assert f"{folded.title} {folded.where}" == "not sure: 4 rows of updates on shop.c3, shop.c5, shop.c6 and 1 more"
    assert fold(found, {folded.key}) == [loss, slow, folded, *unsure, found[3]]
    words = [text for text, _ in counts_in_words(IncidentScan(tuple(found), 9, None, done=True))]
    assert words == ["1 loss", "1 mass change", "5 not sure"], "incidents are counted, not rows"
    lines = as_table(found).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "-", "4"]
    assert "--all shows them" in lines[3]
    assert [line.split()[0] for line in as_table(found, whole=True).splitlines()[1:]] == [*"1234567"]


def test_how_long_an_incident_took_is_in_the_units_of_a_person() -> None:
    long = replace(incident(1, Harm.LOSS), last=Ts(1_001 + 7_500, 1), open=True)
    assert re.split(r"  +", as_table([long]).splitlines()[1])[2] == "2 h 5 min+"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], False),
        (["--since", "1795197974:14"], True),
        (["--since", "1795197974:14", "--json"], False),
        (["--since", "1795197974:14", "--ns", "shop.orders"], False),
    ],
)
def test_a_list_that_begins_later_tells_the_option_with_which_its_incidents_are_found_again(
    options: list[str], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = IncidentScan((incident(1, Harm.LOSS),), 9, None, done=True)
    monkeypatch.setattr(incidents, "ask", lambda *_, **__: found)
    done = CliRunner().invoke(incidents.command, options, standalone_mode=False)
    words = "restore plan --incident needs --since 1795197974:14, too, to find these.\n"
    assert (done.exit_code, words in done.stderr, words in done.stdout) == (0, told, False), done.output
