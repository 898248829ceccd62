"""How one incident is named on a command line."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from builders.incidents import incident
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import IncidentScan
from tallyglass_tui.cli import incident_name as incident_name_module
from tallyglass_tui.cli.incident_name import agreed, chosen, identified, incident_name


def scan(*firsts: int) -> IncidentScan:
    rows = [incident(number, first) for number, first in enumerate(firsts, 1)]
    routine = incident(0, 900, reason="ttl")
    return IncidentScan((routine, *rows), 0, None, done=True)


def test_the_point_names_an_incident_whatever_its_number_has_become() -> None:
    before, after = scan(500, 700), scan(300, 500, 700)
    name = incident_name(str(chosen(before, incident_name("1")).limit))
    assert isinstance(name, Ts)
    assert chosen(after, name).first == before.incidents[1].first
    assert chosen(after, 1).first != before.incidents[1].first


def test_what_was_named_is_told_with_the_name_that_stays() -> None:
    """A number means another incident once later entries have made rows of routine one."""
    named = identified(replace(incident(4, 500), title="deleteMany on shop.carts", documents=400), 4, None)
    assert named.startswith("incident 4 is deleteMany on shop.carts, 1970-01-01T00:08:20Z, 400 documents. ")
    assert named.endswith("; --incident 500:2 names this one.")
    assert identified(incident(4, 500), 4, Ts(400, 1)).endswith("; --incident 500:2 --since 400:1 names this one.")
    assert identified(incident(4, 500), Ts(500, 2), None).endswith(", 1970-01-01T00:08:20Z, 300 documents.")


async def test_a_number_is_asked_about_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, answers, asked = incident(4, 500), [True, False], list[bool]()

    async def confirmed(_: str, *, default: bool) -> bool:
        asked.append(default)
        return answers.pop(0)

    monkeypatch.setattr(incident_name_module, "confirmed", confirmed)
    await agreed(one, 4, None)
    assert (asked, "incident 4 is " in capsys.readouterr().err) == ([], True)
    for name in ("stdin", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True)
    await agreed(one, Ts(500, 2), None)
    assert asked == []
    await agreed(one, 4, None)
    with pytest.raises(InputError, match="Nothing was planned"):
        await agreed(one, 4, None)
    assert asked == [False, False]


@pytest.mark.parametrize("name", [3, 0, Ts(900, 2), Ts(500, 1)])
def test_what_is_not_in_the_list_is_refused(name: int | Ts) -> None:
    with pytest.raises(InputError, match=f"There is no incident {name}.") as refused:
        chosen(scan(500, 700), name)
    assert "listed with --since, --log or --evidence" in refused.value.advice


def test_several_that_begin_at_one_point_need_a_number() -> None:
    with pytest.raises(InputError, match="2 incidents begin at 500:2"):
        chosen(scan(500, 500), Ts(500, 2))
    assert chosen(scan(500, 500), 2).number == 2


@pytest.mark.parametrize("text", ["", "0", "-1", "2.5", "x", "1:x", "\u0663", "1795197974:99999999999"])
def test_other_text_is_no_name(text: str) -> None:
    with pytest.raises(InputError, match="names no incident"):
        incident_name(text)
