"""Mutation testing: break the safety-critical code, one mutation at a time, and check that a test fails.

``mutations.toml`` lists the mutations: a file, a text that occurs in it once, its replacement, and the tests that must
then fail. Each is applied to a private copy of the tree, never to the working tree. The exit code is 0 only if every
mutation is killed; a surviving mutation, or an entry that does not fit the code, makes it 1.

Usage: ``python -m tests.mutants [WORD ...]``. With words, only mutations whose file or texts contain one of them run.

``python -m tests.mutants --random SEED N`` applies N random changes instead (:mod:`tests.mutants.random_changes`), each
against the unit tests of its package. Those that survive are printed; the exit code is 1 if they are more than
:data:`MOST_SURVIVORS` of all.
"""

from __future__ import annotations

import compileall
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.mutants.mutation import ROOT, Mutation
from tests.mutants.random_changes import draw

LIST = Path(__file__).with_name("mutations.toml")
PARALLEL = 2
LONGEST_SECONDS, LONGEST_FACTOR = 120.0, 4.0
"""A test run that takes longer than both counts as killed, the latter times what it takes without a mutation: the
mutation made something wait or loop forever."""

MOST_SURVIVORS = 0.15
"""The share of random changes that may survive the unit tests: the live tests, which take hours here, find others."""

ALL_SECONDS = 1_200.0
"""The limit for all tests of the list without a mutation, on a busy machine."""

TOOLS = ".tools"
"""The folder of the database tools (``make tools``), which some tests need."""

_TESTS_PASSED, _TESTS_FAILED = 0, 1  # exit codes of pytest; any other means that it could not run the tests


class Verdict(StrEnum):
    """The outcome of one mutation."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    ERROR = "ERROR"
    """The entry is invalid: its text does not occur exactly once, or its tests cannot be run."""


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one mutation and the seconds it took. ``note`` explains an error."""

    mutation: Mutation
    verdict: Verdict
    seconds: float
    note: str = ""


class Tree:
    """A private copy of the working tree, which runs one mutation at a time. ``usual`` are the seconds that tests take
    without one."""

    def __init__(self, folder: Path, usual: Mapping[tuple[str, ...], float]) -> None:
        self.folder = folder
        self._usual = usual
        ignored = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "build", "dist", "*.egg-info")
        shutil.copytree(ROOT, folder, ignore=ignored)
        (folder / TOOLS).symlink_to(ROOT / TOOLS)
        # Validate caches by content: a file that changes twice within a second must not be loaded from a stale cache.
        compileall.compile_dir(folder, quiet=2, force=True, invalidation_mode=PycInvalidationMode.CHECKED_HASH)

    def judge(self, mutation: Mutation) -> tuple[Verdict, str]:
        """Apply the mutation, run its tests, and put the file back."""
        file = self.folder / mutation.file
        if not file.is_file():
            return Verdict.ERROR, "the file does not exist"
        original = file.read_text(encoding="utf-8")
        found = original.count(mutation.old)
        if found != 1:
            return Verdict.ERROR, f"the text occurs {found} times, not once"
        if mutation.old == mutation.new:
            return Verdict.ERROR, "old and new text are the same"
        file.write_text(original.replace(mutation.old, mutation.new), encoding="utf-8")
        try:
            seconds = max(LONGEST_SECONDS, LONGEST_FACTOR * self._usual[mutation.tests])
            code, output = self.run(mutation.tests, seconds)
        finally:
            file.write_text(original, encoding="utf-8")
        if code == _TESTS_PASSED:
            return Verdict.SURVIVED, ""
        if code in (_TESTS_FAILED, None):
            return Verdict.KILLED, ""
        return Verdict.ERROR, f"pytest ended with {code}:\n{output}"

    def run(self, tests: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Run tests. Return the exit code of pytest, or None if it took too long, and the end of its output."""
        # Plain asserts: rewriting them in every run takes longer than running the tests.
        options = ["-x", "-q", "--no-header", "--tb=line", "--assert=plain", "-p", "no:cacheprovider"]
        options += ["-m", "not soak"]
        # Do not use the default base folder, which all runs on a machine share and clean up.
        options.append(f"--basetemp={self.folder}.pytest")
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(self.folder / part) for part in ("core", "tui")),
            "TALLYGLASS_REQUIRE": "node",  # a skipped test kills no mutation
            "TALLYGLASS_REQUIRE_TOOLS": "1",
            "CI": "1",  # makes Hypothesis draw the same examples in every run
        }
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                return None, ""
        return process.returncode, "\n".join(output.splitlines()[-15:])


def read_list(path: Path = LIST) -> list[Mutation]:
    """Return the mutations of the list. Raises KeyError, ValueError or tomllib.TOMLDecodeError if it is invalid."""
    groups = tomllib.loads(path.read_text(encoding="utf-8"))["group"]
    return [
        Mutation(group["file"], old, new, harm, tuple(group["tests"]))
        for group in groups
        for old, new, harm in group["mutations"]
    ]


def results(mutations: Sequence[Mutation], trees: queue.Queue[Tree]) -> Iterator[Result]:
    """Yield the result of each mutation, run in whichever tree is free."""

    def judge(mutation: Mutation) -> Result:
        tree, began = trees.get(), time.monotonic()
        try:
            verdict, note = tree.judge(mutation)
        finally:
            trees.put(tree)
        return Result(mutation, verdict, time.monotonic() - began, note)

    with ThreadPoolExecutor(trees.qsize()) as pool:
        futures = [pool.submit(judge, mutation) for mutation in mutations]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def run_all(mutations: Sequence[Mutation]) -> list[Result] | None:
    """Run the mutations and print each result. Return the results, or None if the tests fail without a mutation."""
    found: list[Result] = []
    usual: dict[tuple[str, ...], float] = {}
    with tempfile.TemporaryDirectory(prefix="tallyglass-mutants-") as folder:
        trees: queue.Queue[Tree] = queue.Queue()
        for number in range(PARALLEL):
            trees.put(Tree(Path(folder) / str(number), usual))
        tree = trees.get()
        for tests in sorted({mutation.tests for mutation in mutations}):
            began = time.monotonic()
            code, output = tree.run(tests, ALL_SECONDS)
            usual[tests] = time.monotonic() - began
            if code != _TESTS_PASSED:
                print(f"The tests do not pass without a mutation:\n{output or f'more than {ALL_SECONDS:.0f} s'}")
                return None
        trees.put(tree)
        for result in results(mutations, trees):
            print(f"{result.verdict:<8} {result.seconds:5.1f} s  {result.mutation}", flush=True)
            found.append(result)
    return found


def main(words: Sequence[str]) -> int:
    """Run the list, or random changes; print a report and return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    allowed = 0.0
    if words[:1] == ["--random"]:
        seed, count = map(int, words[1:])
        mutations, allowed = draw(seed, count), MOST_SURVIVORS
    else:
        listed = read_list()
        mutations = [
            one for one in listed if not words or any(word in f"{one.file} {one.old} {one.new}" for word in words)
        ]
    if not mutations:
        print("No mutation matches.")
        return 1
    began = time.monotonic()
    found = run_all(mutations)
    if found is None:
        return 1
    bad = [result for result in found if result.verdict is not Verdict.KILLED]
    for result in bad:
        print(f"\n{result.verdict}: {result.mutation}\n  {result.note or result.mutation.harm}")
        if allowed:
            print(f"  old = {result.mutation.old!r}\n  new = {result.mutation.new!r}")
    counts = Counter(result.verdict for result in found)
    files = len({mutation.file for mutation in mutations})
    print(
        f"\n{len(mutations)} mutations in {files} files, {time.monotonic() - began:.0f} s: "
        + ", ".join(f"{counts[verdict]} {verdict.lower()}" for verdict in Verdict)
        + "."
    )
    return 1 if len(bad) > allowed * len(mutations) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
