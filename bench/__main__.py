"""Run the named benchmarks, or all: ``python -m bench [name ...]``. Each is a module here with a ``main``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def names() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name[0] != "_")


def main(wanted: list[str]) -> int:
    """Run the wanted benchmarks, or all if none are named. Returns the exit code."""
    known = names()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}. Known: {', '.join(known)}.", file=sys.stderr)
        return 2
    for name in wanted or known:
        print(f"== {name}", flush=True)
        importlib.import_module(f"bench.{name}").main([])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
