"""What is said of random families of writes, in full: sizes and pauses are those at which a rule decides.

``PYTHONPATH=tests python -m corpus.oplog_families`` writes ``verdicts.txt`` again. Read its difference before you
commit it: each line is a verdict that users see.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tallyglass.moment import Ts
from tallyglass.oplog.incidents.burst import Burst
from tallyglass.oplog.incidents.explanations import Explanations
from tallyglass.oplog.incidents.families import Family
from tallyglass.oplog.incidents.id_order import IdOrder
from tallyglass.oplog.incidents.recurrence import Window
from tallyglass.oplog.incidents.touched import touched_by
from tallyglass.oplog.incidents.verdict import Finding, judge

VERDICTS = Path(__file__).resolve().parents[1] / "core" / "oplog" / "verdicts.txt"
FAMILIES = 400

NS = "shop.orders"
BEGIN = 1_000_000_000
"""Milliseconds at which each window begins, so that slots begin with it."""

GAPS = (49, 50, 51, 249, 250, 251, 900, 1_000, 1_001, 4_000, 9_999, 10_000, 10_001, 30_000)
SIZES = (1, 2, 4, 5, 6, 7, 19, 20, 21, 40, 80, 81, 160, 400)
PACES = (0, 1, 49, 50, 51, 400)
"""Milliseconds from one document to the next."""


def verdicts() -> Iterator[str]:
    """The lines of the file."""
    for seed in range(FAMILIES):
        rng = random.Random(seed)
        user = b"u" * 32 if seed % 2 else None
        family, window = (
            Family(NS, rng.choice("dddu"), user),
            Window(BEGIN, BEGIN + rng.choice((90, 299, 300, 1_800)) * 1_000),
        )
        known = Explanations()
        writes = _Writes(rng, family, window)
        writes.job()
        for _ in range(rng.choice((1, 1, 2, 3))):
            (writes.pool if user and rng.random() < 0.5 else writes.act)()
        if user is None and family.op == "d" and rng.random() < 0.4:
            rng.choice((known.ttl, known.capped)).add(NS)
            known.ttl_millis = rng.choice((0, 60_000, 60_000))
            known.since[NS] = rng.choice((0, writes.ts(rng.randrange(window.millis))))
        writes.put()
        alike = family.wide.all_seen() if rng.random() < 0.1 else None
        yield f"# {seed}: {family.op} {'sessions' if user else 'plain'}, {window.millis // 1_000} s"
        found = judge(family, window, known, alike)
        yield from map(_text, sorted(found, key=lambda one: (one.burst.first, one.form.name)))
        yield ""


class _Writes:
    """The bursts of one family, before they are put into it in order of time."""

    def __init__(self, rng: random.Random, family: Family, window: Window) -> None:
        self._rng, self._family, self._window = rng, family, window
        self._dense: list[Burst] = []
        self._runs: list[Burst] = []
        self._usual = rng.choice(SIZES[:10])
        self._sessions = [bytes([n]) * 16 for n in range(rng.choice((1, 1, 2, 3, 5)))]
        self._number = 0

    def ts(self, at: int) -> int:
        """The timestamp of a moment of the window."""
        return (BEGIN + at) // 1_000 << 32 | at % 1_000 + 1

    def job(self) -> None:
        """What an application does again and again, or nothing."""
        rng, period = self._rng, self._rng.choice((9_000, 30_000, 60_000, 61_000, 97_000))
        times, size, pace = rng.choice((0, 2, 3, 4, 8, 17, 19)), self._usual, rng.choice(PACES[:4])
        order = self._order() if rng.random() < 0.4 else None
        session = rng.choice(self._sessions)
        for n in range(times):
            at = 500 + n * period + rng.choice((0, 0, 700))
            if at + size * pace < self._window.millis:
                self._add(at, size + rng.choice((0, 1)), pace, order, session if rng.random() < 0.7 else None)

    def act(self) -> None:
        """A few stretches with pauses of a length at which a rule decides."""
        rng = self._rng
        at, order, session = rng.randrange(self._window.millis), self._order(), rng.choice(self._sessions)
        pace, gap = rng.choice(PACES), rng.choice(GAPS)
        size = self._usual * rng.randrange(1, 6) if rng.random() < 0.5 else rng.choice(SIZES)
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            at = self._add(at, size, pace, order, session if rng.random() < 0.6 else None) + gap
            if rng.random() < 0.4:
                size, order, gap = rng.choice(SIZES), self._order(), rng.choice(GAPS)

    def _add(self, at: int, size: int, pace: int, order: IdOrder | None, session: bytes | None) -> int:
        end = min(at + (size - 1) * pace, self._window.millis)
        one = Burst(self.ts(at), max(self.ts(end), self.ts(at)), BEGIN + at, BEGIN + end, size, size, _order=order)
        one.samples = (str(at),)
        if self._family.op == "u":
            one.touched = touched_by([at % 97 + n % self._rng.choice((3, 500)) for n in range(size)])
        if self._family.user is not None:
            one.session, one.user = session or self._rng.choice(self._sessions), self._family.user
            batch = self._rng.choice((1, 1, size))
            self._number += self._rng.choice((0, 1, 3))
            one.low, one.high = self._number, self._number + size // batch - (batch == 1)
            one.batch, one.head, one.tail, self._number = batch, batch, batch, one.high
        self._dense.append(one)
        self._runs.append(one)
        return end

    def pool(self) -> None:
        """Single writes of some sessions at once, each of which begins and ends about when the others do."""
        rng, old = self._rng, len(self._dense)
        self.act()
        dense = self._dense[old:]
        del self._runs[old:]
        begun, ended, count = dense[0].first_wall, dense[-1].last_wall, rng.choice((1, 2, 3, 4, 8))
        for n in range(count):
            share, left = divmod(sum(one.documents for one in dense), count)
            size = max(share + left * (n == 0) + rng.choice((0, 0, 0, -1, 1)), 1)
            first = begun + rng.choice((0, 0, 900, 10_001))
            last = max(ended - rng.choice((0, 0, 9_000)), first)
            run = Burst(self.ts(first - BEGIN), self.ts(last - BEGIN), first, last, size, size, 1, size, 1, 1, 1)
            run.session, run.user, run.samples = bytes([50 + n]) * 16, b"u" * 32, (f"{n}",)
            self._runs.append(run)

    def _order(self) -> IdOrder | None:
        low = self._rng.randrange(100)
        if self._rng.random() < 0.4:
            return None
        fields = frozenset(self._rng.choice(([], [b"state"], [b"state", b"note"], [b"total"])))
        near = self._rng.choice((0, 0, 4, 5, 6))
        return IdOrder(("number", low), ("number", low + 50), self._rng.choice((1, 1, -1, 0)), near, fields)

    def put(self) -> None:
        """Put all that do not overlap into the family."""
        family, ends = self._family, dict[bytes, int]()
        for one in sorted(self._dense, key=lambda one: one.first):
            if one.first > ends.get(b"", -1):
                ends[b""] = one.last
                family.whole.count(one)
                family.fine.extend([replace(one, session=b"", user=b"", low=-1, high=-1, batch=0, head=0, tail=0)])
        for one in sorted(self._runs, key=lambda one: one.first):
            if one.first > ends.get(one.session + b"s", -1):
                ends[one.session + b"s"] = one.last
                family.wide.extend([one.copy()], one.session or None)


def _text(one: Finding) -> str:
    burst = one.burst
    several = ", ".join(f"{_at(part.first)}..{_at(part.last)}: {part.documents}" for part in one.parts)
    parts = {
        one.form.name: f"{burst.first_wall - BEGIN}+{burst.millis}", "of": f"{burst.documents} in {burst.entries}",
        "ts": f"{_at(Ts.of_number(burst.first))}..{_at(Ts.of_number(burst.last))}",
        "": one.reason or one.confidence, "about": one.about, "may repeat": one.may_repeat, "times": one.times,
        "starts": [at - BEGIN for at in one.starts], "sessions": one.sessions, "session": burst.session[:1].hex(),
        "user": bool(burst.user), "parts": several, "touched": [number >> 32 for number in burst.touched],
        "ids": burst.samples, "note": one.note,
    }  # fmt: skip
    return " | ".join(f"{name} {value}".strip() for name, value in parts.items() if value)


def _at(ts: Ts) -> str:
    return f"{ts.t - BEGIN // 1_000}:{ts.i}"


if __name__ == "__main__":
    VERDICTS.write_text("\n".join(verdicts()))
