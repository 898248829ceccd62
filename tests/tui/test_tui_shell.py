"""The shell: pages, keys, help, palette, pause, trouble, too small a terminal, and a crash."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList

from idle import strips_of
from tallyglass.connection.secret import Secret
from tallyglass.errors import ReadError
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.run import _questions
from tallyglass_tui.terminal.crash import crash_report
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.live_table import LiveTable


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 15)])
async def test_every_line_fits_and_the_frame_is_there(screen_at: Any, size: tuple[int, int]) -> None:
    async with screen_at(size) as screen:
        assert len(screen.lines) == size[1]
        assert "1 Counters" in screen.lines[0]
        assert size[0] < 80 or " rs0 " in screen.lines[0]
        assert screen.lines[-1].endswith("q  Quit")
        await screen.press("3")
        assert "following" in screen.text


async def test_a_timer_fires_though_the_process_was_stopped_as_it_started(
    screen_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.monotonic

    def after_a_stop() -> float:
        """The clock of Textual's timers, a second later for one that fires once and has just read it."""
        caller = sys._getframe(1).f_locals
        return real() + (caller.get("_repeat") == 0 and "start" in caller)

    async with screen_at((80, 24)) as screen:
        monkeypatch.setattr("textual._time.get_time", after_a_stop)
        fired = asyncio.Event()
        screen.app.set_timer(0.01, fired.set)
        await asyncio.wait_for(fired.wait(), 10)


async def test_a_page_may_be_drawn_before_the_one_that_replaces_it_is_built(screen_at: Any) -> None:
    async with screen_at((80, 24)) as screen:
        left = screen.app.page
        opened = screen.app.switch_mode("oplog")
        assert screen.app.page is not left
        left.show_state()
        await opened
        await screen.press("question_mark")
        assert "Keys on Oplog" in screen.text


@pytest.mark.parametrize("size", [(40, 10), (59, 24), (80, 14), (20, 5)])
async def test_too_small_gets_one_sentence(screen_at: Any, size: tuple[int, int]) -> None:
    async with screen_at(size) as screen:
        screen.feeds.named["deployment"].fail(ReadError("No server answers."))
        screen.app.flush_now()
        await screen.pilot.pause()
        assert "Counters" not in screen.text
        said = " ".join(screen.text.split())
        assert said == "Tallyglass needs at least 60x15 cells; 80x24 shows all. Enlarge the window, or q."
        await screen.pilot.resize_terminal(80, 24)
        await screen.pilot.pause()
        assert "1 Counters" in screen.lines[0]
        assert "! No server answers." in screen.lines[1]


async def test_help_and_palette_name_the_live_keys(screen_at: Any) -> None:
    async with screen_at((100, 50)) as screen:
        await screen.press("question_mark")
        assert "what runs out first, and when" in screen.text
        assert "Sort by the next column" in screen.text
        assert "Page down" in screen.text
        await screen.press("escape", "3", "question_mark")
        assert "To the next destructive operation" in screen.text
        assert "Sort by the next column" not in screen.text
        await screen.press("escape", "colon")
        for _ in range(20):
            if "Who deleted what" in screen.text:
                break
            await screen.pilot.pause(0.1)
        assert "Who deleted what" in screen.text
        await screen.press("escape")
        assert screen.app.page is not None


@pytest.mark.parametrize("pages", [-1, 1])
async def test_the_palette_takes_a_key_before_its_list_is_drawn(screen_at: Any, pages: int) -> None:
    async with screen_at() as screen:
        screen.app.action_command_palette()
        palette = screen.app.screen
        while not palette.query(OptionList) or not palette.query_one(OptionList).option_count:  # noqa: ASYNC110 - nothing is signalled
            await asyncio.sleep(0)
        assert palette.query_one(OptionList).size.height == 0
        palette.action_page(pages)
        await screen.pilot.pause()
        assert palette.is_active


async def test_without_colours_the_place_in_the_palette_and_in_a_line_is_seen(screen_at: Any) -> None:
    async with screen_at((100, 50), environ={"NO_COLOR": "1"}) as screen:

        def shows(text: str, attribute: str) -> bool:
            strips = strips_of(screen.app)
            return any(
                part.text.strip() == text and getattr(part.style, attribute) for strip in strips for part in strip
            )

        await screen.press("colon")
        for _ in range(20):
            if "who deleted what" in screen.text:
                break
            await screen.pilot.pause(0.1)
        await screen.press("down")
        assert [name for name in ("Copy", "Counters (1)", "Filter") if shows(name, "underline")] == ["Counters (1)"]
        await screen.press("escape", "slash", "n", "s", "left")
        assert shows("s", "reverse")
        assert not shows("n", "reverse")


async def test_pause_holds_the_screen_and_loses_nothing(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("p")
        assert "PAUSED" in screen.lines[0]
        assert screen.app.rate.interval is None
        await screen.press("p")
        assert "PAUSED" not in screen.lines[0], "no longer paused, however busy the machine is"


async def test_data_requested_during_a_pause_arrives(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("4", "1", "p", "4")
        assert "PAUSED" in screen.lines[0]
        await screen.press("1", "3")
        assert "PAUSED" not in screen.lines[0], "no longer paused, however busy the machine is"
        await screen.press("p", "i")
        assert screen.app.rate.interval


async def test_a_lost_server_says_since_when_and_goes_away_by_itself(screen_at: Any) -> None:
    async with screen_at() as screen:
        feed = screen.feeds.named["deployment"]
        feed.fail(ReadError("No server answers.", "db1:27017 refuses [/red] connections."))
        first = feed.trouble.since
        feed.fail(ReadError("No server answers.", "Many words of advice are too many. " * 5))
        screen.app.flush_now()
        await screen.pilot.pause()
        assert screen.lines[2].endswith("…"), "what is cut ends so"
        feed.fail(ReadError("No server answers."))
        screen.app.flush_now()
        await screen.pilot.pause()
        assert f"No server answers. Since {first:%H:%M:%S}Z, trying again." in screen.text
        assert " rs rs0 6.0.5 ?" in screen.lines[0]
        feed.put(screen.app.deployment)
        screen.app.flush_now()
        await screen.pilot.pause()
        assert "No server answers" not in screen.text


async def test_a_terminal_that_does_not_keep_up_is_spared(screen_at: Any, monkeypatch: Any) -> None:
    async with screen_at() as screen:
        monkeypatch.setattr(type(screen.app), "congested", True)
        for _ in range(3):
            screen.app._on_time()
        assert screen.app.rate.badge == "0.5 Hz slow link"
        monkeypatch.undo()
        screen.app._on_time()
        await screen.pilot.pause()
        assert "0.5 Hz slow link" in screen.lines[0]


async def test_quit(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.press("q")
        assert screen.app.return_code == 0


async def test_focus_lost_slows_it_down(screen_at: Any) -> None:
    from textual.events import AppBlur, AppFocus

    async with screen_at() as screen:
        screen.app.post_message(AppBlur())
        await screen.pilot.pause()
        assert screen.app.rate.badge == "0.2 Hz unfocused"
        screen.app.post_message(AppFocus())
        await screen.pilot.pause()
        assert screen.app.rate.badge == ""


def test_a_crash_report_holds_no_secret_no_local_and_no_control_byte() -> None:
    def fail(uri: str) -> None:
        raise ValueError(f"cannot use {uri} \x1b]52;c;AAAA\x07")

    password = "hunter2-canary"
    Secret(password)
    with pytest.raises(ValueError, match="cannot use") as caught:
        fail(f"mongodb://root:{password}@db1/")
    report = crash_report(caught.value)
    assert "cannot use" in report
    assert password not in report
    assert "\x1b" not in report
    assert "\x07" not in report
    assert "defect of Tallyglass" in report


async def test_a_defect_ends_with_a_status_and_without_locals(screen_at: Any, capsys: Any) -> None:
    def fail() -> None:
        a_local_with_a_canary = "canary-local"
        raise RuntimeError(f"boom {len(a_local_with_a_canary)}")

    async def crash() -> None:
        async with screen_at() as screen:
            apps.append(screen.app)
            screen.app.call_later(fail)
            await screen.pilot.pause()
            await screen.pilot.pause()

    apps: list[Any] = []
    with pytest.raises(RuntimeError, match="boom"):
        await crash()
    assert apps[0].return_code == 70
    output = capsys.readouterr().err
    assert "RuntimeError: boom 12" in output
    assert "defect of Tallyglass" in output
    # The source line may stand there, the values of its names may not.
    assert output.count("canary-local") == 0


async def test_in_the_colours_of_the_terminal_the_mark_of_the_palette_is_seen(screen_at: Any) -> None:
    async with screen_at((80, 24), environ={"COLORTERM": ""}) as screen:
        await screen.press("colon")
        marks = [part for strip in strips_of(screen.app) for part in strip if part.text.strip() == ":"]
        assert [part.style.color.name for part in marks] == ["default"]


@pytest.mark.parametrize("theme", ["tallyglass", "ansi-dark", "ansi-light"])
async def test_a_warning_does_not_look_like_an_error(screen_at: Any, theme: str) -> None:
    async with screen_at(environ={"TALLYGLASS_THEME": theme}) as screen:
        assert screen.app.theme == theme
        colors = screen.app.theme_variables
        assert len({colors["warning"].replace("bright_", ""), colors["error"], colors["success"]}) == 3


async def test_a_theme_that_does_not_exist_is_named(screen_at: Any) -> None:
    async with screen_at((120, 40), environ={"TALLYGLASS_THEME": "solarised"}) as screen:
        await screen.pilot.pause()
        assert "No theme is called 'solarised'" in screen.text
        assert screen.app.theme == "ansi-dark"


async def test_a_new_user_is_told_the_questions_and_their_keys(
    screen_at: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    told = _questions(PAGES)
    assert [part.split()[0] for part in told.split("; ") if part[0].isdigit()] == ["1", "2", "3", "4"]
    async with screen_at((60, 15)) as screen:
        screen.app.say(told)
        await screen.pilot.pause()
        assert told.split() == " ".join(screen.lines[-3:]).split(), "whole, also where it is narrow"
    (tmp_path / "tallyglass").mkdir()
    assert _questions(PAGES) == "", "who was here before knows them"


async def test_a_message_is_whole_or_shows_that_it_is_cut(screen_at: Any) -> None:
    saved = "Saved 3 entries to /var/" + "a" * 100
    async with screen_at((60, 15)) as screen:
        screen.app.say(saved)
        await screen.pilot.pause()
        assert "".join(saved.split()) == "".join("".join(screen.lines[-3:]).split())
        screen.app.say("no room for it " * 20)
        await screen.pilot.pause()
        assert screen.lines[-1].rstrip().endswith("…")


async def test_a_line_that_is_typed_survives_a_window_that_is_too_small(screen_at: Any) -> None:
    async with screen_at((80, 24)) as screen:
        await screen.press("4", "b", *"/back")
        await screen.pilot.resize_terminal(50, 12)
        await screen.press("3", "w", "enter")
        await screen.pilot.resize_terminal(80, 24)
        await screen.pilot.pause()
        assert screen.app.screen.TITLE == "Restore"
        await screen.press(*"ups")
        line = screen.app.screen.query_one(InputLine)
        assert (line.is_open, line.has_focus, line.value) == (True, True, "/backups")


async def test_the_table_has_the_keys_again_after_a_window_that_was_too_small(screen_at: Any) -> None:
    async with screen_at((50, 12)) as screen:
        await screen.press("slash", "4")
        assert screen.app.screen.TITLE == "Restore"
        await screen.press("1", "slash")
        await screen.pilot.resize_terminal(80, 24)
        await screen.pilot.pause()
        assert screen.app.screen.TITLE == "Counters"
        assert isinstance(screen.app.screen.focused, LiveTable)
        await screen.press("3")
        assert screen.app.screen.TITLE == "Oplog"


async def test_ctrl_c_ends_it_in_a_window_that_is_too_small(screen_at: Any) -> None:
    async with screen_at((80, 24)) as screen:
        await screen.press("4", "b")
        await screen.pilot.resize_terminal(50, 12)
        await screen.press("ctrl+c")
        assert screen.app.return_code == 0
