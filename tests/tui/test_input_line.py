"""The input line: keys that arrive together, refused texts, prefilled texts, completion, and what a time means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.events import Key, Paste

from tallyglass_tui.format import time_meaning
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.path_completion import complete_path


def line(screen: Any) -> InputLine:
    found = screen.app.screen.query_one(InputLine)
    assert isinstance(found, InputLine)
    return found


async def test_keys_that_arrive_together_are_for_the_line(screen_at: Any) -> None:
    async with screen_at() as screen:
        for key in ("slash", "q", "p", "s", "enter"):
            screen.app.post_message(Key(key, {"slash": "/", "enter": "\r"}.get(key, key)))
        for _ in range(50):
            await screen.pilot.pause()
            if screen.app.page._filter and not line(screen).is_open:
                break
        assert screen.app.page._filter == "qps"
        assert screen.app.return_code is None
        assert not screen.app.rate.paused


@pytest.mark.parametrize(
    ("keys", "typed"),
    [
        (("n", "e", "w"), "new"),
        (("backspace", "b", "backspace", "c"), "c"),
        (("end", "backspace", "b", "backspace", "c"), "olc"),
        (("home", "x", "end", "y"), "xoldy"),
    ],
)
async def test_a_prefilled_text_is_selected_and_edits_keep_their_order(
    screen_at: Any, keys: tuple[str, ...], typed: str
) -> None:
    async with screen_at() as screen:
        screen.app.page._set_filter("old")
        await screen.pilot.pause()
        for key in ("slash", *keys, "enter"):
            screen.app.post_message(Key(key, key if len(key) == 1 else {"slash": "/"}.get(key)))
        for _ in range(50):
            await screen.pilot.pause()
            if screen.app.page._filter != "old" and not line(screen).is_open:
                break
        assert screen.app.page._filter == typed


async def test_a_paste_replaces_a_prefilled_text(screen_at: Any) -> None:
    async with screen_at() as screen:
        screen.app.page._set_filter("old")
        await screen.press("slash")
        screen.app.post_message(Paste("pasted"))
        await screen.pilot.pause()
        await screen.press("enter")
        assert screen.app.page._filter == "pasted"


async def test_a_text_with_control_characters_is_submitted_unchanged_unless_edited(screen_at: Any) -> None:
    async with screen_at() as screen:
        submitted: list[str] = []
        for typed, expected in (((), "a\x1b[2Jb"), (("end", "c"), r"a\u{1b}[2Jbc")):
            line(screen).open("Filter", submitted.append, "a\x1b[2Jb")
            assert line(screen).value == r"a\u{1b}[2Jb"
            await screen.press(*typed, "enter")
            assert submitted.pop() == expected


async def test_a_refused_text_stays_open_with_the_cursor_at_the_error(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("3", "t", *"2026-13-20 14:30Z", "enter")
        assert line(screen).is_open
        assert screen.app.focused is line(screen)
        assert line(screen).value == "2026-13-20 14:30Z"
        assert line(screen).cursor_position == 5
        assert "there is no month 13" in screen.text
        await screen.press("delete", "delete", *"11")
        assert "2026-11-20 14:30:00Z" in screen.text
        await screen.press("escape")
        assert not line(screen).is_open


async def test_a_live_filter_applies_while_it_is_typed_and_esc_restores_it(screen_at: Any) -> None:
    async with screen_at() as screen:
        page = screen.app.page
        page._set_filter("old")
        await screen.press("slash", *"ne")
        assert page._filter == "ne"
        assert line(screen).is_open
        await screen.press("escape")
        assert page._filter == "old"


async def test_tab_completes_a_path_in_the_line(screen_at: Any, tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    async with screen_at() as screen:
        await screen.press("4", "b")
        screen.app.post_message(Paste(f"{tmp_path}/ba"))
        await screen.pilot.pause()
        await screen.press("tab")
        assert line(screen).value == f"{tmp_path}/backups/"


def test_a_path_is_completed_as_far_as_it_is_unambiguous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nightly-1.gz", "nightly-2.gz", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "weekly").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert complete_path("ni") == "nightly-"
    assert complete_path(f"{tmp_path}/nightly-1") == f"{tmp_path}/nightly-1.gz"
    assert complete_path("~/we") == "~/weekly/"
    assert complete_path("~/.h") == "~/.hidden"
    assert complete_path("no-such/x") == "no-such/x"
    assert complete_path("zz") == "zz"
    (tmp_path / "monthly\x1b]52;c;cm0=\x07").touch()
    assert complete_path("mon") == "mon", "no escape sequence reaches the terminal"


def test_a_time_is_shown_in_utc_and_local_and_with_its_age() -> None:
    meaning = time_meaning("2026-01-02T03:04:05+01:00")
    assert meaning.startswith("2026-01-02 02:04:05Z = ")
    assert " local, " in meaning
    assert meaning.endswith((" ago", " s", " min", " h", " d", " y"))
    assert "is not a time" in time_meaning("tomorrow-ish")
