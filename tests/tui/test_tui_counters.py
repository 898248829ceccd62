"""The counters page: calm order, one counter in full, a pool as a map, hostile texts, and what empty states say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders.counters import NOW, counter, snapshot
from idle import on_draw
from tallyglass.counters.check_line import GONE
from tallyglass.counters.snapshot import (
    Absence,
    Ceiling,
    CounterTrouble,
    Flag,
    Forecast,
    Grade,
    Members,
    MissingCounter,
    PoolView,
)
from tallyglass_tui import format as fmt
from tallyglass_tui.counters import order as counter_order
from tallyglass_tui.counters import page as counters
from tallyglass_tui.counters.facts import ends, outcome
from tallyglass_tui.counters.glance import lately
from tallyglass_tui.shell.bars import NavLine

URGENT = counter(
    9, value=2_147_388_009, used=0.99995, flags=(Flag.BEHIND,), drift=-12, target="shop.orders",
    repair="db.getSiblingDB('shop').counters.updateOne({_id: 'orders9'}, {$max: {seq: NumberLong('12')}})",
    forecast=Forecast(NOW + timedelta(days=3), NOW + timedelta(days=4), NOW + timedelta(days=5), rate=7.0),
)  # fmt: skip
POOL = counter(
    5, id="pool", pool=PoolView(1000, 1, (1.0, *(n / 1000 for n in range(1, 1000))), tuple(map(str, range(1000))),
                            tuple(range(1000)), (1000,) * 1000),
)  # fmt: skip


async def test_rows_urgent_first_with_what_is_left_and_marks(screen_at: Any) -> None:
    async with screen_at() as screen:
        assert "Looking for counters" in screen.text
        await screen.put("counters", snapshot(counter(1), URGENT))
        assert screen.lines[1].rstrip() == (
            " NOW   shop.counte… orders9 BEHIND: behind the largest id in its collection: th…"
        )
        assert screen.lines[2].rstrip() == " 2 counters: 1 urgent · 1 fine"
        await screen.press("end", "enter")
        rows = [line for line in screen.lines[4:] if "shop.cou" in line]
        assert rows[0].startswith("!! ")
        assert "95,638 int32" in rows[0]
        assert "3.0d..5.0d" in rows[0]
        assert "orders9" in rows[0], "the id tells counters apart, and is kept whole"
        assert "BEHIND" in rows[0]
        assert "400d..600d" in rows[1]
        assert all(len(line) <= 80 for line in screen.lines)


async def test_nothing_is_drawn_when_nothing_changed(screen_at: Any) -> None:
    async with screen_at() as screen:
        for _ in range(2):  # the first makes room for a second line above the table
            await screen.put("counters", snapshot(counter(1), counter(2)))
        drawn: list[Any] = [None]
        on_draw(screen.app, drawn.extend)
        while drawn:
            drawn.clear()
            await screen.pilot.pause(0.5)
        await screen.put("counters", snapshot(counter(1), counter(2), later=1))
        await screen.pilot.pause(0.3)
        # The line of the pages says how old the values are, by the clock.
        assert [one for one in drawn if not isinstance(one, NavLine)] == []
        drawn.clear()
        await screen.put("counters", snapshot(counter(1, value=5), counter(2), later=2))
        while not drawn:
            await screen.pilot.pause(0.1)


async def test_the_cursor_stays_on_its_row_and_rows_do_not_swap_each_second(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(counter(1), counter(2), counter(3)))
        await screen.press("down")
        await screen.put("counters", snapshot(counter(3), counter(2), counter(1), later=2))
        order = [line for line in screen.lines[2:] if "orders" in line]
        assert [line.split("orders")[1][0] for line in order] == ["1", "2", "3"]
        await screen.put("counters", snapshot(counter(3), counter(1), counter(2), later=60))
        order = [line for line in screen.lines[2:] if "orders" in line]
        assert [line.split("orders")[1][0] for line in order] == ["3", "1", "2"]
        await screen.press("enter")
        assert "orders2" in screen.lines[1]


async def test_one_counter_with_reason_band_graph_and_repair_to_copy(screen_at: Any) -> None:
    async with screen_at((100, 40)) as screen:
        await screen.put("counters", snapshot(URGENT, counter(1)))
        await screen.press("enter")
        assert "pre-images" not in screen.text
        for words in ("int32 consumer", "runs out", "12 behind the largest id in shop.orders", "repair", "now", "60 "):
            assert words in screen.text or words == "60 "
        assert "(80%)" in screen.text
        await screen.press("y")
        assert screen.app.clipboard == URGENT.repair
        assert "Copied the repair" in screen.text
        await screen.press("z", "escape")
        assert "1 urgent · 1 fine" in screen.text


async def test_a_key_that_sorts_says_on_a_detail_where_it_works(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(counter(1), POOL))
        for opened in (["enter"], ["down", "enter"]):
            await screen.press(*opened, "T")
            assert "Sorting works on the list: Esc goes back to it." in screen.text
            await screen.press("escape")


async def test_what_needs_nobody_is_one_line_that_unfolds(screen_at: Any) -> None:
    guess = counter(7, grade=Grade.POSSIBLE, flags=(Flag.GUESS,))
    async with screen_at() as screen:
        await screen.put("counters", snapshot(URGENT, counter(1), counter(2), guess))
        assert " 4 counters: 1 urgent · 2 fine · 1 not sure" in screen.text
        assert [line.split("Enter")[0].strip() for line in screen.lines[5:7]] == [
            "2 fine: orders1, orders2", "1 not sure: orders7"
        ]  # fmt: skip
        await screen.press("down", "enter")
        assert [line.split()[1] for line in screen.lines[6:8]] == ["orders1", "orders2"]
        await screen.press("down", "enter")
        assert "orders1" in screen.lines[1], "the row, not the line of its group"
        await screen.press("escape", "up", "enter")
        assert "2 fine: orders1, orders2" in screen.text
        await screen.press("slash", *"orders", "enter")
        assert len([line for line in screen.lines[4:] if " orders" in line]) == 4, "who filters looks for a row"


async def test_on_a_small_terminal_the_graph_is_above_what_it_rests_on(screen_at: Any) -> None:
    async with screen_at((80, 24)) as screen:
        await screen.put("counters", snapshot(replace(URGENT, evidence=f"{'and more ' * 30}the end")))
        await screen.press("enter")
        legend = next(y for y, line in enumerate(screen.lines) if "80% sure" in line)
        assert len(screen.lines) - legend > 10, "room for a graph"
        assert screen.lines[-2].startswith(" history"), "its first line shows that more follows"
        await screen.press(*"j" * 30)
        assert "the end" in screen.lines[-2]


async def test_a_date_that_cannot_be_given_reads_well(screen_at: Any) -> None:
    early = Forecast(rate=1.0, note="Too early to say: 53 s seen, 54 days needed.")
    async with screen_at((100, 40)) as screen:
        await screen.put("counters", snapshot(counter(1, forecast=early, crossing=early)))
        await screen.press("enter")
        for label in ("runs out", "2^31"):
            line = next(line for line in screen.lines if label in line)
            assert " ".join(line.split()).startswith(f"{label} too early to say: 53 s seen, 54 days needed")


async def test_a_pool_is_a_map_with_the_numbers_of_one(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(POOL))
        await screen.press("enter")
        assert "0: 0 of 1,000, 100% used (1 of 1,000)" in screen.text
        await screen.press("right", "down", "end")
        assert "999: 999 of 1,000, 99.9% used (1,000 of 1,000)" in screen.text
        await screen.press("f")
        assert "(1 of 1,000)" in screen.text


async def test_the_map_of_a_pool_is_there_after_the_window_was_enlarged(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.put("counters", snapshot(POOL))
        await screen.press("enter", "end")
        await screen.pilot.resize_terminal(200, 50)
        await screen.pilot.pause()
        assert sum(line.count("█") + line.count("▓") for line in screen.lines) > 100


async def test_a_large_terminal_shows_what_is_known_of_the_pool_under_the_cursor(screen_at: Any) -> None:
    async with screen_at((120, 40)) as screen:
        await screen.put("counters", snapshot(POOL))
        glance = screen.text.split("── ")[1]
        for label in ("documents", "first full", "history", "kind"):
            assert f" {label} " in glance


async def test_all_facts_of_a_pool_can_be_read(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(replace(POOL, evidence=f"{'and more ' * 60}the end")))
        await screen.press("enter", "down")
        assert "the end" not in screen.text
        await screen.press("tab", *"j" * 30)
        assert "the end" in screen.text
        await screen.press("tab", "right")
        assert "(80 of 1,000)" in screen.text


async def test_filter_sort_and_back(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(counter(1), counter(2, library="typegoose"), URGENT))
        await screen.press("slash", *"typegoose", "enter")
        assert "1 with 'typegoose'" in screen.text
        assert "orders1" not in screen.text
        await screen.press("slash", *" [/x", "enter")
        assert "None of 3 rows matches the filter. Esc clears it." in screen.text
        await screen.press("escape")
        assert "3 counters" in screen.text
        await screen.press("s", "s")
        assert "by value, descending" in screen.text
        rows = [line for line in screen.lines[4:] if "shop.cou" in line]
        assert "orders9" in rows[0]


async def test_the_counters_of_a_group_are_counted_though_they_share_a_row(screen_at: Any) -> None:
    async with screen_at() as screen:
        group = replace(counter(1), key="g", members=Members(1_000, (counter(1),)))
        await screen.put("counters", snapshot(counter(2), group))
        assert "1,001 counters: 1,001 fine" in screen.text
        await screen.put("counters", snapshot(replace(URGENT, members=Members(30, (URGENT,))), group))
        await screen.press("s", "S")
        assert "1,030 counters: 1 urgent · 1,000 fine" in screen.text
        await screen.press("slash", *"tenant7", "enter")
        none = "None of 2 rows matches the filter. 1,028 counters of a group have no row of their own."
        assert none in " ".join(screen.text.split())


@pytest.mark.parametrize(
    ("key", "mark", "order"),
    [
        ("N", "by name", "1239"),
        ("V", "value▼", "9321"),
        ("U", "used▼", "9312"),
        ("R", "rate▼", "2391"),
        ("T", "ends (80%)▲", "9312"),
    ],
)
async def test_each_column_has_its_key_and_the_unknown_comes_last(
    screen_at: Any, key: str, mark: str, order: str
) -> None:
    unknown = counter(2, used=None, rate=90.0, forecast=Forecast())
    rows = (
        counter(1, rate=None, used=0.3, forecast=Forecast(early=NOW + timedelta(days=500))),
        unknown,
        counter(3, used=0.4, rate=8.0),
        URGENT,
    )

    async with screen_at((120, 24)) as screen:

        def shown() -> str:
            return "".join(line.split("orders")[1][0] for line in screen.lines[4:] if "orders" in line)

        await screen.put("counters", snapshot(*rows))
        await screen.press(key)
        assert mark in screen.text
        assert shown() == order
        last = order[-1] if key in "URT" else ""
        await screen.press(key)
        assert shown() == order[: len(order) - len(last)][::-1] + last


@pytest.mark.parametrize("descending", [False, True])
def test_a_value_that_is_no_number_comes_last_in_both_directions(descending: bool) -> None:
    values = (3, float("nan"), 1, 2)
    rows = [replace(counter(n), value=value) for n, value in enumerate(values)]
    wanted = counter_order.RowOrder("value", descending)
    shown = counter_order.arrange(rows, wanted, counter_order.ArrangedRows(), NOW).rows
    assert [row.value for row in shown[:3]] == sorted((1, 2, 3), reverse=descending)


async def test_guesses_stand_apart_and_are_never_first_to_run_out(screen_at: Any) -> None:
    soon = Forecast(NOW + timedelta(days=1), NOW + timedelta(days=2), NOW + timedelta(days=3), rate=7.0)
    guess = counter(7, grade=Grade.POSSIBLE, flags=(Flag.GUESS,), forecast=soon, used=0.99)
    async with screen_at((120, 40)) as screen:
        await screen.put("counters", snapshot(guess, counter(1)))
        assert "2 counters: 1 fine · 1 not sure" in screen.text
        assert " FINE  shop.counters orders1 ends in about 500 d" in screen.text
        await screen.press("end", "enter")
        rows = [line for line in screen.lines[4:20] if "shop.counters" in line]
        assert ["orders1" in rows[0], "orders7" in rows[1]] == [True, True]
        assert not rows[1].startswith("!")


ENDS = "shop.counters orders1 ends in about 500 d (400d..600d)"


@pytest.mark.parametrize(
    ("others", "missing", "lines"),
    [
        ([], {}, [f" WARN  shop.counters orders: {GONE}", " 0 counters: 1 gone"]),
        ([counter(1)], {}, [f" WARN  shop.counters orders: {GONE}", " 1 counter: 1 gone · 1 fine"]),
        ([counter(1)], {"routine": True}, [f" FINE  {ENDS}", " 1 counter: 1 fine"]),
        ([counter(1)], {"since": None}, [f" FINE  {ENDS}", " 1 counter: 1 fine"]),
        ([counter(1, used=0.99)], {}, [f" NOW   {ENDS}", " 1 counter: 1 urgent · 1 gone"]),
    ],
)  # fmt: skip
async def test_a_counter_that_is_gone_is_counted_and_named_unless_another_is_worse(
    screen_at: Any, others: list[Any], missing: dict[str, Any], lines: list[str]
) -> None:
    gone = replace(MissingCounter("shop.counters", "orders", Absence.GONE, since=NOW), **missing)
    async with screen_at((120, 24)) as screen:
        await screen.put("counters", replace(snapshot(*others), missing=(gone,)))
        assert [line.rstrip() for line in screen.lines[2:4]] == lines


@pytest.mark.parametrize(
    ("forecast", "rate", "words"),
    [
        (Forecast(far=True), 0.0, " FINE  no end in sight"),
        (Forecast(), 0.0, " FINE  no end in sight"),
        (Forecast(), None, " too early to say what runs out first"),
        (Forecast(rate=7.0), 0.0, " too early to say what runs out first"),
    ],
)
async def test_without_a_date_the_first_line_says_so(
    screen_at: Any, forecast: Forecast, rate: float | None, words: str
) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(counter(1, forecast=forecast, rate=rate)))
        assert screen.lines[1].rstrip() == words


async def test_a_counter_too_young_to_judge_is_listed(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(counter(1, used=0.6, forecast=Forecast(steps=3))))
        assert "orders1" in screen.text


async def test_what_cannot_be_read_is_named(screen_at: Any) -> None:
    async with screen_at() as screen:
        trouble = CounterTrouble("app.counters", "This user may not run find.", "tallyglass doctor names the role.")
        await screen.put("counters", snapshot(troubles=(trouble,)))
        assert "app.counters: This user may not run find." in screen.text
        assert "No counter was found" in screen.text
        await screen.put("counters", replace(snapshot(counter(1)), unmatched=("include app.* matches no collection.",)))
        assert "In your file: include app.* matches no collection." in screen.text


def test_an_exhausted_or_idle_counter_has_no_date() -> None:
    full = counter(1, forecast=Forecast(NOW, NOW, NOW, rate=7.0, note="Already there.", spread=1.0))
    assert ends(full.forecast, NOW) == "already there"
    assert outcome(full, NOW) == "is at its end"
    assert ends(Forecast(far=True, note="No allocation seen in 12 min."), NOW) == "no allocation seen in 12 min"


@pytest.mark.parametrize("size", [(80, 24), pytest.param((140, 40), marks=pytest.mark.long)])
async def test_texts_from_the_server_are_only_text(screen_at: Any, size: tuple[int, int]) -> None:
    texts = ["[/x]", "[red", "[@click=app.quit]x[/]", "\\", "宽字符" * 30, "x" * 5000, "%s{0}"]
    async with screen_at(size) as screen:
        for number, text in enumerate(texts):
            bad = counter(number, ns=text, id=text, library=text, notes=(text,), target=text, drift=3,
                          ceiling=Ceiling(9, text), forecast=Forecast(note=text, basis=text))  # fmt: skip
            await screen.put("counters", snapshot(bad, troubles=(CounterTrouble(text, text, text),)))
            assert text[:4] in screen.text
            await screen.press("enter", "y", "question_mark", "escape", "escape")
            assert screen.app.is_running, text
            assert len(screen.lines) == size[1], text


async def test_many_are_sorted_and_filtered_beside_the_screen(screen_at: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(counters, "_AT_ONCE", 10)
    monkeypatch.setattr(counter_order, "_RUN", 4)
    many = tuple(counter(n, value=7 * n % 30) for n in range(30))

    async with screen_at() as screen:

        async def arranged() -> list[Any]:
            await screen.app.workers.wait_for_complete()
            return [one.value for one in screen.app.page._arranged.rows]

        await screen.put("counters", snapshot(*many))
        assert await arranged() == [one.value for one in many]
        await screen.press("s", "s")
        assert await arranged() == list(reversed(range(30)))
        await screen.press("S", "slash", *"orders2", "enter")
        assert await arranged() == sorted(one.value for one in many if "orders2" in one.id)
        assert "30 counters: 11 with 'orders2' · 30 fine" in screen.text


async def test_a_high_terminal_shows_the_selected_counter_below_the_table(screen_at: Any) -> None:
    now = NOW.timestamp()
    hours = tuple((now - 7_800 + 60 * n, 1_000.0 + 10 * n + 5 * max(0, n - 70)) for n in range(131))
    words = ["now", "early", "likely", "late"]
    async with screen_at((120, 40)) as screen:
        await screen.put("counters", snapshot(URGENT, counter(2, history=hours)))
        assert screen.lines[20].startswith("── shop.counters orders9 ")
        assert lately(counter(2, history=hours), NOW) == "+900 in the last hour · +600 in the hour before"
        await screen.press("j")
        assert screen.lines[20].startswith("── shop.counters orders9 "), "the line of a group leaves it"
        await screen.press("enter", "j")
        rows = screen.lines[20:]
        assert rows[0].startswith("── shop.counters orders2 ")
        assert rows[1].split("(")[0].split() == ["runs", "out", *ends(counter(2).forecast, NOW).split("(")[0].split()]
        band = [place for place, sign in enumerate(rows[2]) if sign in "░▒"]
        assert (rows[2].index("▒"), band[-1]) == (pytest.approx(99, abs=2), 118)
        assert [word for word in rows[3].split() if word.isalpha()] == words
        assert "in the last hour" in rows[4]
        assert "0 to 7.0/s" in rows[5]
        assert any("┊" in row for row in rows[7:]), "the graph"
        await screen.press("enter")
        assert "── shop" not in screen.text
    async with screen_at() as screen:
        await screen.put("counters", snapshot(URGENT))
        assert "lately" not in screen.text


async def test_the_view_of_a_counter_that_vanishes_does_not_stay_as_if_it_were_read(screen_at: Any) -> None:
    async with screen_at() as screen:
        await screen.put("counters", snapshot(URGENT, counter(1)))
        await screen.press("enter")
        assert "ceiling" in screen.text
        await screen.put(
            "counters", replace(snapshot(counter(1)), missing=(MissingCounter(URGENT.ns, URGENT.id, Absence.GONE),))
        )
        assert "ceiling" not in screen.text, "the list is shown again"
        assert "orders1" in screen.text
        assert f"{URGENT.id} is gone." in screen.text


async def test_a_narrow_terminal_keeps_the_answer(screen_at: Any) -> None:
    async with screen_at((60, 15)) as screen:
        await screen.put("counters", snapshot(counter(1), URGENT))
        assert "ends (80%)" in screen.text
        assert "3.0d..5.0d" in screen.text
        assert "orders9" in screen.lines[1], "the first to run out"
        assert "BEHIND" in screen.lines[4], "the reason of the mark"
        await screen.press("slash", *"orders1", "enter")
        assert "1 with 'orders1'" in screen.lines[2], "that counters are hidden"


@pytest.mark.parametrize("width", [60, 80, 120])
async def test_every_mark_has_its_reason_and_no_flag_is_cut(screen_at: Any, width: int) -> None:
    flagged = [counter(n, flags=(flag,), ns=f"a.f{n}", near=URGENT.ceiling) for n, flag in enumerate(Flag)]
    used = counter(40, ns="a.used", used=0.91)
    near = counter(41, ns="a.near", near=URGENT.ceiling)
    soon = counter(42, ns="a.soon", forecast=Forecast(NOW, NOW + timedelta(days=4), NOW + timedelta(days=5), rate=7.0))
    naive = Forecast(naive=NOW + timedelta(days=20), rate=7.0, steps=30, history_seconds=9e4)
    many = counter(44, ns="a.many", members=Members(3, used=(*[0] * 95, 3, *[0] * 5)))
    rows = (*flagged, used, near, soon, counter(43, ns="a.naive", forecast=naive), many)
    async with screen_at((width, 40)) as screen:
        await screen.put("counters", snapshot(*rows))
        marked = [line for line in screen.lines[4:] if line.startswith("!")]
        reasons = {line.split()[1]: line[screen.lines[3].index("why") :].rstrip() for line in marked}
        flags = {f"a.f{n}": str(flag) for n, flag in enumerate(Flag)}
        others = {"a.used": "91.0%", "a.near": "near limit", "a.soon": "ends soon", "a.naive": "ends soon"}
        assert reasons == flags | others | {"a.many": "3 near"}


def test_an_end_within_the_hour_is_told_in_seconds_and_minutes() -> None:
    soon = Forecast(NOW + timedelta(seconds=40), NOW + timedelta(seconds=120), NOW + timedelta(seconds=180))
    assert ends(soon, NOW) == f"in about 2 min, 40 s to 3 min (80%): likely {fmt.clock(soon.likely)}."
    later = Forecast(NOW + timedelta(hours=2), NOW + timedelta(hours=3), NOW + timedelta(hours=4))
    assert ends(later, NOW).endswith(f"from {fmt.day(later.early)} to {fmt.day(later.late)} (80%).")
