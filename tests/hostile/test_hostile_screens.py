"""Hostile data on every page, in a real pseudo-terminal: it cannot send commands, hide text or break the layout."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostile.populate import Hostile
from hostile.samples import control_bytes, hidden
from hostile.walk import ENTER, ESC, STOPS, TAB, UNGUARDED, Seen, Stop, walk
from hostile.wire import clipboards, offences
from pseudo_terminal import Terminal, dashboard, environment
from server_version import server_version
from tallyglass_tui.counters.cells import COLUMNS
from tallyglass_tui.incidents.cells import INCIDENT_COLUMNS
from tallyglass_tui.oplog.rows import RATE_COLUMNS
from tallyglass_tui.widgets.live_table import Column, layout

pytestmark = [pytest.mark.live, pytest.mark.terminal]

Open = Callable[..., Terminal]
FOLDER = "b\x1b]52;c;cHduZWQ=\x07$(touch PWNED) [@click=app.quit]x[/]"


@dataclass(frozen=True)
class Walked:
    """A finished walk: the screens, everything that was sent, and the exit status."""

    seen: dict[str, Seen]
    raw: bytes
    status: int


@pytest.fixture(scope="module")
def odd_backup(hostile: Hostile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The backup in a folder with a hostile name."""
    return Path(shutil.copytree(hostile.backup, tmp_path_factory.mktemp("odd") / FOLDER))


@pytest.fixture(scope="module")
def walked(hostile: Hostile, odd_backup: Path, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """The walk with the guard in place."""
    home = tmp_path_factory.mktemp("home")
    (home / ".local" / "state" / "tallyglass").mkdir(parents=True)  # no new user: the keys stay on their line
    terminal = Terminal(dashboard(hostile.uri, f"--backup={odd_backup}"), environment(home), frames=True)
    try:
        seen = walk(terminal, lambda stop, _: terminal.wait(stop.shows))
        terminal.press(ESC + "q")
        status = terminal.wait_for_exit()
        assert terminal.wait_restored()
        return Walked(seen, bytes(terminal.raw), status)
    finally:
        terminal.close()


@pytest.fixture(scope="module")
def unguarded(hostile: Hostile, odd_backup: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """The same walk with the guard taken out: whether something got through, by stop. It may end at any stop."""
    home = tmp_path_factory.mktemp("home")
    words = dashboard(hostile.uri, f"--backup={odd_backup}", setup=UNGUARDED)
    terminal = Terminal(words, environment(home), emulated=False)
    leaked = {}

    def reached(stop: Stop, start: int) -> None:
        def there(_: bytes) -> bool:
            raw = bytes(terminal.raw)
            leaked[stop.name] = any(one.at >= start for one in offences(raw))
            return stop.shows.encode() in raw[start:] and (leaked[stop.name] or not stop.data)

        terminal.wait_raw(there)

    try:
        walk(terminal, reached)
    finally:
        terminal.close()
    return leaked


def test_nothing_but_its_own_sequences_leaves_the_dashboard(walked: Walked) -> None:
    assert walked.status == 0
    assert not offences(walked.raw, left=True)
    assert not clipboards(walked.raw)


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop.data], ids=lambda stop: stop.name)
def test_without_the_guard_it_would_have(unguarded: dict[str, bool], stop: Stop) -> None:
    assert unguarded[stop.name]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.name)
def test_the_frame_holds(walked: Walked, stop: Stop) -> None:
    seen = walked.seen[stop.name]
    assert len(seen.lines) == 24
    assert seen.lines[0].startswith(" 1 Counters 2 ObjectIds 3 Oplog 4 Restore 5 Profiles ")
    assert re.search(r" P\*? · (\d\d:\d\dZ|0\.5 Hz )", seen.lines[0])  # a busy machine draws less often, and says so
    assert r" rs\u" in seen.lines[0]
    assert not [line for line in seen.lines[1:-1] if "4 Restore" in line]


@pytest.mark.parametrize(
    ("name", "columns", "first"),
    [("counters", COLUMNS, 4), ("counters, next rows", COLUMNS, 4), ("incidents", INCIDENT_COLUMNS, 4),
     ("rates", RATE_COLUMNS, 4)],
)  # fmt: skip
def test_the_columns_hold(walked: Walked, name: str, columns: tuple[Column, ...], first: int) -> None:
    gaps, x = [], -1
    for _, width in layout(columns, 80)[:-1]:
        x += width + 1
        gaps.append(x)
    # A line that stands for many, and the one below a list, have no columns.
    lines = [row for row in walked.seen[name].cells[first:-1] if "".join(row).strip()]
    rows = [row for row in lines if not re.search(r"^ ── |Enter (un)?folds", "".join(row))]
    assert len(rows) > 10
    assert len(lines) - len(rows) <= 2
    assert all(row[x] == " " for row in rows for x in gaps)


def test_the_columns_of_the_tail_hold(walked: Walked) -> None:
    rows = ["".join(cell or " " for cell in row) for row in walked.seen["oplog"].cells[4:-1]]
    assert len(rows) == 19
    assert all(re.match(r"[! ] \d\d:\d\d:\d\d (ins|upd|del|cmd) \S", row) for row in rows)
    titles = walked.seen["oplog"].lines[3]
    gaps = [titles.index(title) - 1 for title in ("_id", "what")]
    assert all(row[gap] == " " for row in rows for gap in gaps)


@pytest.fixture
def open_hostile(hostile: Hostile, tmp_path: Path) -> Iterator[Open]:
    """Start the dashboard on the hostile server, or on another URI."""
    opened: list[Terminal] = []

    def start(*args: str, uri: str = hostile.uri, setup: str = "", **how: object) -> Terminal:
        opened.append(Terminal(dashboard(uri, *args, setup=setup), environment(tmp_path), frames=True, **how))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def test_what_is_copied_is_safe_to_paste(hostile: Hostile, odd_backup: Path, open_hostile: Open) -> None:
    terminal = open_hostile(f"--backup={odd_backup}")

    def copy() -> str:
        before = len(clipboards(bytes(terminal.raw)))
        terminal.press("y")
        terminal.wait_raw(lambda raw: len(clipboards(raw)) > before)
        return clipboards(bytes(terminal.raw))[-1]

    def commands() -> Iterator[str]:
        for _ in range(9):
            yield copy()
            terminal.press("j")

    terminal.wait(">999y")
    terminal.press("G")
    texts = [copy()]
    terminal.press(ENTER)
    terminal.wait("ceiling ")
    texts.append(copy())
    terminal.press("3")
    terminal.wait("dropDatabase")
    texts.append(copy())
    terminal.press(ENTER)
    terminal.wait("--oplogLimit=")
    texts.append(copy())
    terminal.press("i")
    terminal.wait("deleteMany")
    texts.append(copy())
    terminal.press("4")
    terminal.wait("what happened")
    texts.append(copy())
    terminal.press("j" * 10 + ENTER)
    terminal.wait(" can come back")
    texts.append(copy())
    terminal.press(TAB)
    terminal.wait("comes back")
    texts.append(copy())
    terminal.press(TAB + TAB)
    terminal.wait("Save the oplog first")
    emitted = [*commands()]
    assert not offences(bytes(terminal.raw))
    for text in texts:
        assert not control_bytes(text.encode())
        assert not hidden(text)
    for text in emitted:
        assert re.fullmatch(r"[A-Za-z0-9 ./:=_-]+", text), "names stand in files: a shell has nothing to expand here"


def test_banner_and_wide_status_line(hostile: Hostile, open_hostile: Open) -> None:
    wrong = open_hostile(uri=hostile.other_set, size=(300, 24))
    text = wrong.wait("belongs to another replica set than the one in the connection string: ")
    assert r"connection string: rs\u{1b}]0;x\u{7}" in text
    assert re.search(r"Since \d\d:\d\d:\d\dZ", text)
    wide = open_hostile(size=(160, 50))
    wide.wait(r"rs rs\u{1b}]0;… " + server_version())
    for terminal in (wrong, wide):
        assert not offences(bytes(terminal.raw))


def test_help_and_palette_stay_in_their_frames(open_hostile: Open) -> None:
    terminal = open_hostile()
    terminal.wait(">999y")
    terminal.press("?")
    terminal.wait("Where to look")
    terminal.wait(lambda _: sum(row[4] == row[75] == "│" for row in terminal.cells) > 15)
    assert all(row[75] == "│" for row in terminal.cells if row[4] == "│")
    terminal.press(ESC)
    terminal.wait(">999y")
    terminal.press(":")
    terminal.wait("What runs out first, and when")
    terminal.press("\x1b[200~x\u202e\x9b31m[/]\x1b[201~")
    terminal.wait(r"x\u{202e}\u{9b}31m[/]")
    assert not offences(bytes(terminal.raw))
