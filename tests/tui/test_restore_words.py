"""What the commands of a restore say where nothing is undone, and how long one may take."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from builders.plan_folder import restored
from builders.plans import changed
from tallyglass.moment import Ts
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.plan.readme import readme
from tallyglass.restore.proof.progress import Step
from tallyglass.restore.undo.outcome_rows import Damaged, NamespaceOutcome
from tallyglass_tui.cli.restore.outcome import report, report_of_copy
from tallyglass_tui.cli.restore.plan_text import as_lines, shown_progress
from tallyglass_tui.cli.restore.window import may_take


def test_a_copy_under_another_name_undoes_nothing() -> None:
    of_all = restored()
    made = changed(of_all, after="shop.carts delete", choice=Choice("shop.orders", "shop.orders_monday"))
    told = readme(made).partition("## How to run")[0]
    assert not [word for word in ("undo", "damage") if word in told]
    assert "nothing that is live is changed" in " ".join(told.split())
    for text in (told, "\n".join(as_lines(made))):
        assert "First entry left out: shop.carts delete" in text
    assert "First entry undone" in readme(changed(of_all, after="shop.carts delete", incident="a deleteMany"))
    assert "First entry after it: shop.carts insert" in readme(changed(of_all, after="shop.carts insert"))


def test_the_account_of_a_copy_speaks_of_no_accident() -> None:
    rows = [NamespaceOutcome("shop.orders_monday", restored=1_150)]
    (line,) = report_of_copy(rows, "shop.orders_monday", Path("/f"))
    assert line == "1,150 documents are in shop.orders_monday; nothing live was changed."
    rows[0].damaged.append(Damaged("shop.orders_monday", '{"$oid":"6"}', "It is missing."))
    missing, *_ = report_of_copy(rows, "shop.orders_monday", Path("/f"))
    assert missing == '  shop.orders_monday {"$oid":"6"}: It is missing.'


def test_with_other_definitions_the_account_speaks_of_the_documents_alone() -> None:
    rows = [NamespaceOutcome("shop.orders", restored=50)]
    ends = [report(rows, Path("/f"), definitions=same)[-1].partition(" as ")[0] for same in (True, False)]
    assert ends == ["All is", "Every document is"]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_of_a_plan_promises_nothing_too_early_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, screen = 100.0, Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("time.monotonic", lambda: now)
    with shown_progress() as progress:
        for at, said in ((10, "1,000 entries, at 1970-01-01T00:00:10Z"), (30, "Z, about 10 s left")):
            now += 5
            progress(Step(1_000, Ts(at, 1), Ts(10, 1), Ts(50, 1)))
            assert screen.getvalue().rstrip(" \r").endswith(said)
    shown = screen.getvalue().split("\r")
    assert shown[-2:] == [" " * len(shown[-4]), ""]
    assert shown[-4].strip(), "what is blanked out"


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (0.015, 1_084.0, "less than a minute to 18 min"),
        (3.0, 50.0, "less than a minute"),
        (300.0, 1_200.0, "5 min to 20 min"),
    ],
)
def test_no_restore_ends_within_milliseconds(least: float, most: float, said: str) -> None:
    assert may_take(least, most) == f"a restore may take {said}"
