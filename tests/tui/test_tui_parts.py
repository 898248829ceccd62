"""The parts without an app: rate, spans, ring, order, graph, input and output of the driver."""

from __future__ import annotations

import codecs
import os
import select
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Paste
from textual.message import Message

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogRow, OplogUpdate, RowKind
from tallyglass_tui.counters.graph import Band, graph
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog import row_ring
from tallyglass_tui.oplog.row_ring import RowRing
from tallyglass_tui.oplog.rows import entry_lines
from tallyglass_tui.shell.refresh_rate import RefreshRate
from tallyglass_tui.terminal import driver as terminal_driver
from tallyglass_tui.terminal.app import TerminalApp
from tallyglass_tui.terminal.driver import BastionDriver, InputDecoder, NonBlockingWriter
from tallyglass_tui.terminal.theme import choose_theme, needs_plain_glyphs
from tallyglass_tui.widgets.line_view import changed_run

NOW = datetime(2026, 11, 20, 18, 6, 14, tzinfo=UTC)


def entry(n: int, size: int = 10, destructive: bool = False) -> OplogRow:
    ts = Ts(1_795_000_000 + n, 1)
    return OplogRow(
        RowKind.ENTRY, ts, 1, None, "d" if destructive else "i", "shop.orders", "insert", id=f"id-{n}", size=size,
        destructive=destructive, raw=b"\0" * size,
    )  # fmt: skip


def update(rows: tuple[OplogRow, ...], dropped: int = 0) -> OplogUpdate:
    return OplogUpdate(NOW, rows, seen=len(rows), matched=len(rows), dropped=dropped, last=None)


def test_the_pace_says_why() -> None:
    rate = RefreshRate()
    assert (rate.interval, rate.badge) == (0.25, "")
    for _ in range(3):
        rate.lag(0.4)
    assert (rate.interval, rate.badge) == (2.0, "0.5 Hz busy"), "a late tick says nothing of the link"
    rate.lag(0.0, backlog=True)
    assert rate.badge == "0.5 Hz slow link"
    for _ in range(10):
        rate.lag(0.0)
    assert rate.badge == ""
    rate.lag(0.4)
    rate.lag(0.4)
    rate.lag(0.0)
    rate.lag(0.4)
    assert rate.badge == ""
    assert RefreshRate(ssh=True).interval == 1.0
    assert RefreshRate(ssh=True, focused=False).badge == "0.2 Hz unfocused"
    assert RefreshRate(paused=True).interval is None


def test_the_face_follows_the_terminal() -> None:
    assert choose_theme({"COLORTERM": "truecolor"}, ssh=False) == "tallyglass"
    assert choose_theme({"COLORTERM": "truecolor"}, ssh=True) == "ansi-dark"
    assert choose_theme({"COLORFGBG": "0;15"}, ssh=False) == "ansi-light"
    assert choose_theme({"COLORTERM": "truecolor", "NO_COLOR": "1"}, ssh=False) == "ansi-dark"
    assert needs_plain_glyphs({"TERM": "linux"})
    assert needs_plain_glyphs({"TERM": "xterm", "LANG": "de_DE.ISO-8859-1"})
    assert not needs_plain_glyphs({"TERM": "xterm-256color", "LANG": "C.UTF-8"})


SEGMENTS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from("abc"), st.sampled_from(["", "bold", "red"])), max_size=6
)


@settings(max_examples=300, deadline=None)
@given(SEGMENTS, SEGMENTS)
def test_the_sent_difference_turns_the_old_line_into_the_new_one(old: list, new: list) -> None:
    def line(parts: list) -> list[Segment]:
        width = 40 - sum(part[0] for part in parts)
        return [*(Segment(c * n, Style.parse(s or "none")) for n, c, s in parts), Segment(" " * width)]

    def cells(segments: list[Segment]) -> list[tuple[str, Style | None]]:
        return [(char, segment.style) for segment in segments for char in segment.text]

    before, after = line(old), line(new)
    shown, wanted = cells(before), cells(after)
    run = changed_run(before, after)
    assert (run is None) == (before == after)
    x, width = run or (0, 0)
    shown[x : x + width] = wanted[x : x + width]
    assert shown == wanted
    # The first and the last cell of the run lie in segments that are not the same.
    assert not run or (before[0] == after[0]) <= (x > 0)


def test_the_ring_is_bounded_counts_what_it_loses_and_holds_still() -> None:
    ring = RowRing()
    ring.add(entry(n) for n in range(row_ring.ROWS + 5))
    assert len(ring.rows) == row_ring.ROWS
    assert ring.rows[-1].id == f"id-{row_ring.ROWS + 4}"
    ring.hold()
    first = ring.rows[0]
    ring.add((entry(n) for n in range(row_ring.ROWS + 7)), dropped=3)
    assert ring.rows[0] is first
    assert ring.new == row_ring.ROWS + 10
    assert ring.lost == 5 + 10
    ring.release()
    assert ring.new == 0
    assert ring.rows[-1].id == f"id-{row_ring.ROWS + 6}"
    assert len(ring.rows) == row_ring.ROWS


def test_the_ring_is_bounded_in_bytes() -> None:
    ring = RowRing()
    for n in range(40):
        ring.add([entry(n, size=row_ring.BYTES // 8)])
    assert sum(len(row.raw) for row in ring.rows) <= row_ring.BYTES
    ring.clear()
    sizes = {99: row_ring.BYTES * 2, 100: 10, 101: row_ring.LARGEST, 102: row_ring.LARGEST + 1}
    ring.add([entry(n, size=size) for n, size in sizes.items()])
    assert [len(row.raw) for row in ring.rows] == [0, 10, row_ring.LARGEST, 0]
    assert [row.what for row in ring.rows] == ["large, 16.0 MB: insert", "insert", "insert", "large, 2.0 MB: insert"]
    assert ring.lost == 0
    shown = [entry_lines(row, "", NOW)[-1] for row in ring.rows]
    assert shown[:2] == ["It is too large to be held here: t with 1795000099:1 reads it.", ""]


def test_of_large_past_entries_the_ring_holds_the_first() -> None:
    ring = RowRing()
    ring.add([entry(1)])
    ring.hold_past([entry(n, size=row_ring.BYTES // 8) for n in range(20)])
    assert [row.id for row in ring.rows] == [f"id-{n}" for n in range(8)]
    assert ring.new == ring.lost == 0
    ring.hold_past([entry(0, size=row_ring.BYTES * 2), entry(1)])
    assert [row.id for row in ring.rows] == ["id-0"]


def test_updates_that_wait_are_merged_and_bounded() -> None:
    merged = oplog_reads.merge(update((entry(1),), 2), update(tuple(entry(n) for n in range(row_ring.ROWS)), 3))
    assert len(merged.rows) == row_ring.ROWS
    assert merged.dropped == 2 + 3 + 1


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1e10), st.floats(0, 1e19)), max_size=30),
    st.none() | st.floats(1, 1e19),
    st.none() | st.tuples(*[st.floats(0, 1e12)] * 3),
    st.integers(1, 150),
    st.integers(1, 40),
    st.booleans(),
)
def test_a_graph_fits_whatever_it_is_given(
    points: list[tuple[float, float]], ceiling: float | None, band: tuple[float, float, float] | None,
    width: int, height: int, plain: bool,
) -> None:  # fmt: skip
    history = sorted(points)
    now = history[-1][0] if history else 0.0
    ends = Band(*sorted(now + 1 + end for end in band)) if band else None
    for whole in (False, True):
        lines = graph(history, ceiling, ends, now, (width, height), whole=whole, plain=plain)
        assert len(lines) in (0, height)
        for line in lines:
            text = "".join(text for text, _ in line)
            assert cell_len(text) == width
            assert text.isascii() or not plain


def test_a_graph_shows_past_band_and_ceiling() -> None:
    start = NOW.timestamp()
    history = [(start + n * 60, 1000.0 + n * 10) for n in range(60)]
    now = history[-1][0]
    band = Band(now + 1800, now + 2400, now + 3000)
    text = "\n".join("".join(piece for piece, _ in line) for line in graph(history, 2000, band, now, (80, 12)))
    assert "2.00k" in text
    assert "─" in text
    assert "░" in text
    assert "now" in text
    assert any("\u2800" < char <= "\u28ff" for char in text)


def test_of_a_counter_that_descends_the_axis_is_as_low_as_it_says_and_the_band_is_below_its_line() -> None:
    history = [(10.0 * n, 500.0 - n) for n in range(101)]
    lines = [
        ["".join(text for text, _ in line) for line in graph(history, 0.0, band, 1_000.0, (48, 6), plain=True)]
        for band in (None, Band(4_000, 5_000, 6_000))
    ]
    assert lines == [
        [
            "   506 *****                           |        ",
            "            *******                    |        ",
            "   453            ********             |        ",
            "                         ********      |        ",
            "   400                          *******|        ",
            "       00:00:00                         00:21:15",
        ],
        [
            "   530 ******|                                  ",
            "            **ooooo..                           ",
            "   265       |    .ooooooo...                   ",
            "             |         ...ooooooo.....          ",
            "     0 ---------------------.....ooooooo.......-",
            "       00:00:00                         01:42:00",
        ],
    ]


def test_a_band_that_is_near_can_be_seen_after_a_long_past() -> None:
    start = NOW.timestamp()
    history = [(start + n * 600, 1000.0 + n) for n in range(180)]
    now = history[-1][0]
    band = Band(now + 60, now + 90, now + 180)
    near, whole = (
        "\n".join("".join(piece for piece, _ in line) for line in graph(history, 1181, band, now, (80, 12), whole=how))
        for how in (False, True)
    )
    assert "░" in near
    assert "░" not in whole
    # Both axes have distinguishable values, even if their short forms are alike.
    for text in (near, whole):
        values = [line[:6].strip() for line in text.splitlines()[:-1] if line[:6].strip()]
        assert len(set(values)) == len(values) == 3, text
    assert any("\u2800" < char <= "\u28ff" for char in near)
    over = graph(history, 1181, Band(now - 3, now - 2, now - 1), now, (80, 12))
    assert f"{datetime.fromtimestamp(start, UTC):%d %b %H:%M}" in over[-1][0][0]


def _is_half(read: bytes, rest: bytes) -> bool:
    pending = codecs.getincrementaldecoder("utf-8")("replace")
    pending.decode(read)
    return bool(pending.getstate()[0]) and not 0x80 <= (rest or b"\0")[0] <= 0xBF


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=6) | st.just(b"\x1b[M \xf0\xf1") | st.just("é".encode()), max_size=8), st.data())
def test_input_in_any_pieces_is_decoded_alike_and_never_fails(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    # A read that ends in half a character, and goes on with a key, is the one case that is meant to differ.
    places = [n for n in range(len(whole) + 1) if whole[n - 1 : n] != b"\x1b" and not _is_half(whole[:n], whole[n:])]
    cut = sorted(data.draw(st.lists(st.sampled_from(places), max_size=4)))
    decoder = InputDecoder()
    pieces = [whole[a:b] for a, b in zip([0, *cut], [*cut, len(whole)], strict=True)]
    text = "".join(decoder.decode(piece) for piece in pieces)
    assert "\x1b[M \ufffd" not in text
    if b"\x1b[M" not in whole:
        assert text == InputDecoder().decode(whole)


def test_a_key_after_half_a_character_is_that_key() -> None:
    decoder = InputDecoder()
    assert decoder.decode(b"\xe2\x82") + decoder.decode(b"3") == "3"
    assert decoder.decode(b"\xe2\x82") + decoder.decode(b"\xac3") == "\u20ac3"


@pytest.mark.parametrize(
    ("first", "rest"),
    [(b"ab", b"q, restore and quit: " * 9), (b"1\xff", b""), (b"=" * 1_001, b"")],
    ids=["small", "no key", "a long rule"],
)
def test_a_paste_whose_first_piece_is_small_is_one_paste(
    monkeypatch: pytest.MonkeyPatch, first: bytes, rest: bytes
) -> None:
    monkeypatch.setattr(terminal_driver, "_PIECE_PAUSE", 60.0 if rest else 0.0)
    reader, keyboard = os.pipe()
    reading, seen = BastionDriver.__new__(BastionDriver), list[Message]()
    reading.fileno, reading.exit_event, reading._debug = reader, threading.Event(), False

    def take(event: Message) -> None:
        seen.append(event)
        reading.exit_event.set()

    monkeypatch.setattr(reading, "process_message", take)
    os.write(keyboard, first)
    thread = threading.Thread(target=reading.run_input_thread)
    thread.start()
    while select.select([reader], [], [], 0)[0]:
        pass
    os.write(keyboard, rest)
    thread.join()
    os.close(reader)
    os.close(keyboard)
    (pasted,) = seen
    assert isinstance(pasted, Paste)
    assert pasted.text == (first + rest).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        ([b"\x1b2"], ["escape", "2"]),
        ([b"\x1bj\x1bk"], ["escape", "j", "escape", "k"]),
        ([b"\x1b\r"], ["escape", "enter"]),
        ([b"\x1b/orders"], ["escape", "slash", *"orders"]),
        ([b"\x1b", b"3i"], ["escape", "3", "i"]),
        ([b"3\x1b", b""], ["3", "escape"]),
        ([b"\x1b", b"[A"], ["up"]),
        ([b"\x1b\x1b[A"], ["escape", "up"]),
        ([b"\x1b\x1bi"], ["escape", "escape", "i"]),
        ([b"\x1b[", b"B\x1bOP"], ["down", "f1"]),
        ([b"\x1bx\x1bj"], ["alt+x", "escape", "j"]),
        ([b"\x1bb\x1bf\x1b\t"], ["ctrl+left", "ctrl+right", "shift+tab"]),
        ([b"\x1b[200~a\x1b2\x1b[201~3"], ["paste", "3"]),
        ([b"\x1b[200~a", b"\x1b2", b"\x1b[201~", b"\x1b3"], ["paste", "escape", "3"]),
        ([b"\x1b[200~a\x1b", b"", b"q\x1b[20", b"", b"1~3"], ["paste", "3"]),
        ([b"\x1b[20", b"", b"0~ab\x1b", b"[201~3"], ["paste", "3"]),
    ],
    ids=repr,
)
def test_escape_and_a_key_that_arrive_together_are_two_keys(
    monkeypatch: pytest.MonkeyPatch, reads: list[bytes], keys: list[str]
) -> None:
    monkeypatch.setattr(terminal_driver, "_PIECE_PAUSE", 0.0)
    reader, keyboard = os.pipe()
    seen: list[str] = []
    waiting = iter(reads)

    class Select:
        """The terminal has something to read as long as ``reads`` has, of which an empty one is a pause."""

        @staticmethod
        def select(*_: object) -> tuple[list[int], list[int], list[int]]:
            data = next(waiting, b"")
            os.write(keyboard, data)
            if not data:
                quiet.append(1)
            if len(quiet) > 3:
                reading.exit_event.set()
            return [reader] if data else [], [], []

    quiet: list[int] = []
    reading = BastionDriver.__new__(BastionDriver)
    reading.fileno, reading.exit_event, reading._debug = reader, threading.Event(), False
    reading._app = TerminalApp()
    monkeypatch.setattr(reading._app, "alt_keys", {"alt+x"})
    monkeypatch.setattr(terminal_driver, "select", Select)
    monkeypatch.setattr(reading, "process_message", lambda event: seen.append(getattr(event, "key", "paste")))
    reading.run_input_thread()
    os.close(reader)
    os.close(keyboard)
    assert seen == keys


def test_a_writer_never_waits_and_says_when_it_can_go_on() -> None:
    reader, writer_end = os.pipe()
    recovered = threading.Event()
    writer = NonBlockingWriter(writer_end, recovered.set)
    writer.start()
    frame = "\x1b[1;1H" + "x" * 50_000
    for _ in range(100):
        writer.write(frame)
    assert 0 < writer.backlog <= 300_000
    total = 0
    while not recovered.is_set():
        if select.select([reader], [], [], 0.1)[0]:
            total += len(os.read(reader, 1 << 16))
    assert total < 100 * len(frame)
    writer.leave()
    writer.write("\x1b[?1049l")
    stopping = threading.Thread(target=writer.stop)
    stopping.start()
    rest = b""
    while stopping.is_alive() or select.select([reader], [], [], 0)[0]:
        if select.select([reader], [], [], 0.1)[0]:
            rest += os.read(reader, 1 << 16)
    os.close(writer_end)
    os.close(reader)
    assert rest.endswith(b"\x1b[?1049l")
