"""``python -m tests.adversary [--dense N] [--realistic N] [--seed S] [--jobs J]``: the counts, the price, the wrong."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where pytest finds the builders

from .attack import Result, described, run, total
from .scenario import Scenario, dense, realistic, to_json
from .shrink import shrink

VERDICTS = ("identical", "exit 3", "refused", "twin", "wrong")
_AT_ONCE = 50
_KEPT = Path(__file__).parent / "kept"


def results(make: Callable[[int], Scenario], seeds: Iterable[int]) -> list[tuple[int, Result]]:
    """The undos of some seeds, each with its seed."""

    async def undo_all() -> list[tuple[int, Result]]:
        return [(seed, one) for seed in seeds for one in await run(make(seed))]

    return asyncio.run(undo_all())


async def is_wrong(scenario: Scenario) -> bool:
    """Whether the rule is broken in a scenario."""
    try:
        return any(one.verdict == "wrong" for one in await run(scenario))
    except (ValueError, KeyError, StopIteration, AssertionError):
        return False


def table(name: str, found: list[tuple[int, Result]]) -> None:
    """Print the counts by what was known, and the price."""
    print(f"{name}: {len(found)} undos")
    print(f"  {'known':16}", *(f"{one:>10}" for one in VERDICTS))
    by_knowledge: dict[str, Counter[str]] = {}
    for _, one in found:
        by_knowledge.setdefault(one.undo.knowledge, Counter())[one.verdict] += 1
    for knowledge, counts in sorted(by_knowledge.items()):
        print(f"  {knowledge:16}", *(f"{counts[one]:>10}" for one in VERDICTS))
    print(f"  {'all':16}", *(f"{sum(counts[one] for counts in by_knowledge.values()):>10}" for one in VERDICTS))
    for verdict in ("exit 3", "refused"):
        some = total(one for _, one in found if one.verdict == verdict)
        print(f"  price, {verdict}: {some['listed though right']:,} of {some['documents touched']:,} documents"
              " that the accident touched were listed though a repair would have been right")  # fmt: skip
    reasons = Counter(one.reason.split(":")[0][:70] for _, one in found if one.verdict == "refused")
    for reason, count in reasons.most_common(8):
        print(f"  refused {count:>6} times: {reason}")


def main() -> int:
    """Run it; 1 if anything was wrong."""
    options = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    options.add_argument("--dense", type=int, default=100_000)
    options.add_argument("--realistic", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, help="processes at once; one for each processor unless given")
    options.add_argument("--keep", action="store_true", help="store each wrong scenario, made small, as a test case")
    given = options.parse_args()
    wrong = 0
    with ProcessPoolExecutor(given.jobs) as workers:
        for make, count in ((dense, given.dense), (realistic, given.realistic)):
            parts = [range(first, min(first + _AT_ONCE, given.seed + count))
                     for first in range(given.seed, given.seed + count, _AT_ONCE)]  # fmt: skip
            found = list(chain.from_iterable(workers.map(partial(results, make), parts)))
            table(make.__name__, found)
            for seed, one in found:
                if one.verdict == "wrong":
                    wrong += 1
                    print(f"seed {seed}", described(one), sep="\n")
                    if given.keep:
                        _KEPT.mkdir(exist_ok=True)
                        small = asyncio.run(shrink(make(seed), is_wrong))
                        (_KEPT / f"{make.__name__}_{seed}.json").write_text(to_json(small))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
