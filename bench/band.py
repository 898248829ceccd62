"""How right and how narrow is the 80 % band? Compared with what others use, on 31 kinds of load.

For each length of history: coverage, ends before the early date, pinball loss on the logarithm of the time (mean over
P10, P50 and P90), median error and median width (late over early). A method without an answer loses 2 in pinball.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Sequence

from bench._backtest import Case, play, tallyglass
from bench._kinds import KINDS, UNFORESEEABLE
from bench._peers import Band, peers
from tallyglass.counters.forecast.series import DAY, HOUR, WEEK

HISTORIES = (
    ("3 h", 3 * HOUR, 10.0),
    ("1 d", DAY, 10.0),
    ("7 d", WEEK, 10.0),
    ("14 d", 2 * WEEK, 10.0),
    ("28 d", 28 * DAY, 10.0),
    ("120 d", 120 * DAY, 3.0),
)
_NO_ANSWER = 2.0
_SAMPLES = 700


def cases_of(name: str, seen: float, most: float, count: int, seed: int) -> list[Case]:
    """Some questions about one kind of load: 0.5 to ``most`` times as far ahead as was seen."""
    rng = random.Random(f"{seed} {name} {seen}")
    found = []
    for number in range(count):
        ahead = seen * math.exp(rng.uniform(math.log(0.5), math.log(most)))
        case = play(KINDS[name], rng, seen, ahead, (number + rng.random()) / count * WEEK, _SAMPLES)
        if case.truth > 0 and case.remaining > 0:
            found.append(case)
    return found


def pinball(band: Band, truth: float) -> float:
    """The pinball loss of early, likely and late on the logarithm of the time."""
    losses = []
    for share, told in zip((0.1, 0.5, 0.9), band, strict=True):
        miss = math.log(truth / max(told, 1e-9))
        losses.append(max(share * miss, (share - 1) * miss))
    return sum(losses) / 3


def measure(count: int, seed: int, *, with_peers: bool, histories: Sequence[str]) -> list[dict[str, object]]:
    """One row for each length of history and method."""
    methods: dict[str, Callable[[Case], Band | None]] = {"tallyglass": tallyglass}
    if with_peers:
        for name, peer in peers().items():
            methods[name] = lambda case, ask=peer: ask(case.points, case.remaining, 4 * case.truth)  # type: ignore[misc]
    rows: list[dict[str, object]] = []
    for title, seen, most in HISTORIES:
        if histories and title not in histories:
            continue
        cases = {name: cases_of(name, seen, most, count, seed) for name in KINDS}
        for method, ask in methods.items():
            rows.append({"seen": title, "method": method, **_score(cases, ask)})
    return rows


def _score(cases: dict[str, list[Case]], ask: Callable[[Case], Band | None]) -> dict[str, object]:
    covered, before, losses, errors, widths = [], [], [], [], []
    by_kind: dict[str, float] = {}
    for name, questions in cases.items():
        hits = []
        for case in questions:
            band = ask(case)
            if band is None or min(band) <= 0:
                hits.append(False)
                losses.append(_NO_ANSWER)
                continue
            early, likely, late = band
            hits.append(early <= case.truth <= late)
            before.append(case.truth < early)
            losses.append(pinball(band, case.truth))
            errors.append(abs(likely / case.truth - 1))
            widths.append(late / early)
        covered += hits
        by_kind[name] = round(100 * statistics.fmean(hits)) if hits else 0
    return {
        "cases": len(covered),
        "covered": 100 * statistics.fmean(covered),
        "before": 100 * statistics.fmean(before or [0]),
        "pinball": statistics.fmean(losses),
        "error": 100 * statistics.median(errors or [math.nan]),
        "width": statistics.median(widths or [math.nan]),
        "kinds": by_kind,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table and JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--series", type=int, default=20, help="for each kind and history")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--peers", action="store_true", help="compare with other methods too (about 2 min a series)")
    parser.add_argument("--history", action="append", default=[], metavar="TEXT", help='such as "28 d"')
    options = parser.parse_args(argv)
    rows = measure(options.series, options.seed, with_peers=options.peers, histories=options.history)
    print("| seen | method | covered | before P10 | pinball | median error | width | kinds below 65 % |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        kinds = row["kinds"]
        assert isinstance(kinds, dict)
        ours = row["method"] == "tallyglass"
        low = ", ".join(
            f"{name}{'*' * (name in UNFORESEEABLE)} {share}" for name, share in kinds.items() if ours and share < 65
        )
        print(
            f"| {row['seen']} | {row['method']} | {row['covered']:.0f} % | {row['before']:.0f} % "
            f"| {row['pinball']:.3f} | {row['error']:.0f} % | {row['width']:.2f} | {low} |"
        )
    print("* its future is not in its past")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
