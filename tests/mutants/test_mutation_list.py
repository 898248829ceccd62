"""The lists of mutations fit the code. Otherwise only the long run would find an outdated entry."""

from __future__ import annotations

import tomllib

from tests.mutants.__main__ import ROOT, read_list
from tests.mutants.random_changes import EQUIVALENT


def test_every_mutation_fits_the_code() -> None:
    unfit = []
    for mutation in read_list():
        file = ROOT / mutation.file
        count = file.read_text(encoding="utf-8").count(mutation.old) if file.is_file() else None
        missing = [test for test in mutation.tests if not (ROOT / test.partition("::")[0]).exists()]
        if count != 1 or mutation.old == mutation.new or missing:
            unfit.append(f"{mutation}: {'no such file' if count is None else f'found {count} times'} {missing or ''}")
    assert not unfit, "\n".join(unfit)


def test_every_change_without_effect_fits_the_code() -> None:
    changes = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["change"]
    unfit = []
    for change in changes:
        file = ROOT / change["file"]
        count = file.read_text(encoding="utf-8").count(change["old"]) if file.is_file() else None
        if count != 1 or change["old"] == change["new"] or not change["reason"]:
            unfit.append(f"{change}: {'no such file' if count is None else f'found {count} times'}")
    assert not unfit, "\n".join(unfit)
    assert len({(change["file"], change["new"]) for change in changes}) == len(changes)
