"""Which statements each application runs, and when, by the server's log: one that it runs all the time is routine.

A statement's shape is the same whatever its values, and its size does not matter: the rule of recurrence with one line
for one document. Bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Statement
from tallyglass.oplog.incidents.acts import INTERNAL, is_temporary
from tallyglass.oplog.incidents.recurrence import NEAR_MILLIS, OTHERS, YOUNG, Recurrence, Window

SHELLS = ("mongosh", "MongoDB Shell", "MongoDB Compass")
"""How the application of a client begins in which a person types."""

LINKED = 0.99
"""The share of the statements of a log whose command has a line too: 0.999 where all are logged, fewer in a sample."""

_RUNS = YOUNG + 2
"""So many runs of a statement are told apart: of more, each has enough others to recur."""

_BESIDE = 200
"""The most statements of one run that are kept to be compared with the entries."""

_KEPT = 5_000
"""The most applications, and the most statements by shape."""

SLACK_MILLIS = 1_500
"""How long before its logged begin a statement may have written an entry: a log line is written late. Measured: 99 % of
entries within 1 ms, all within 1.5 s. None was written after the line. Both times are by the clock of one server."""

Program = tuple[str, str]
Shape = tuple[str, str, Program, int]


def is_shell(application: str) -> bool:
    """Whether a person types what it sends."""
    return application.startswith(SHELLS)


@dataclass(slots=True)
class LoggedRun:
    """A statement of one application that ran once, or again and again with short pauses. Times are milliseconds since
    1970. ``largest`` is the one that changed most."""

    largest: Statement
    began: int
    ended: int
    documents: int
    statements: int = 1

    @property
    def is_shell(self) -> bool:
        """Whether a person typed it."""
        return is_shell(self.largest.client.application)

    @property
    def is_loop(self) -> bool:
        """Whether an application ran it again and again: a worker, or a script."""
        return not self.is_shell and self.statements > OTHERS

    def may_be_usual(self, now: int) -> bool:
        """Whether an application has run it for long, or began to run it again and again and goes on."""
        goes_on = self.is_loop and self.ended >= now - NEAR_MILLIS
        return goes_on or (not self.is_shell and self.ended - self.began >= YOUNG * NEAR_MILLIS)


@dataclass(slots=True)
class _Habit:
    """When something was seen, with the runs of a statement that may change many documents without a session."""

    seen: Recurrence = field(default_factory=Recurrence)
    slot: int = -1
    runs: list[LoggedRun] = field(default_factory=list)

    def note(self, statement: Statement) -> None:
        slot = statement.ended // NEAR_MILLIS
        if slot != self.slot:
            self.seen.add((1, statement.began, statement.ended))
        self.slot = slot


class Habits:
    """Tell it every statement of the log, oldest first; then it judges any of them."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._statements: dict[Shape, _Habit] = {}
        self._programs: dict[Program, _Habit] = {}
        self._told = 0
        self._linked = 0
        self._whole = (0, 0)
        """Between these moments statements of less than a millisecond were logged: all were."""
        self._is_full = False
        self._rare: dict[tuple[str, str], int] = {}
        """When a statement that was rare so far ended on a namespace."""

    def note(self, one: Statement) -> bool:
        """Count a statement. Returns whether it is, or may lie beside, one that no application runs all the time."""
        if one.client.is_server:
            return False
        self._told += 1
        self._linked += one.in_session is not None
        if one.began == one.ended:
            self._whole = (min(self._whole[0] or one.began, one.began), max(self._whole[1], one.ended))
        shape, program = _shape(one), _program(one)
        if program in self._programs or len(self._programs) < _KEPT:
            self._programs.setdefault(program, _Habit()).note(one)
        if not one.shape:
            return False
        if len(self._statements) >= _KEPT and shape not in self._statements:
            self._is_full = True
            return False
        habit = self._statements.setdefault(shape, _Habit())
        habit.note(one)
        if one.documents == 0:
            return False
        # What may change many carries a session in a transaction only; the line of a long command is cut before it.
        if one.in_session or one.ns.startswith(INTERNAL) or (one.in_session is None and not one.many):
            return False
        place = one.ns, one.op
        if one.many:
            rare = _extend(habit.runs, one)
            if rare and len(self._rare) < _KEPT:
                self._rare[place] = max(self._rare.get(place, 0), one.ended)
        return one.began - SLACK_MILLIS <= self._rare.get(place, 0)

    def acts(self) -> list[LoggedRun]:
        """The statements that may change many documents and that no application runs all the time, oldest first.

        Of a log in which some are missing, or that is young, only those of a shell: all others may be routine.
        """
        found = []
        for habit in self._statements.values():
            for run in habit.runs if len(habit.runs) < _RUNS else ():
                window = self._window(run.began, run.ended)
                if window is None or is_temporary(run.largest.ns) or run.may_be_usual(window.end):
                    continue
                if (run.is_shell or self._is_known(run, window)) and not self.judge(run.largest, run.began, run.ended):
                    found.append(run)
        return sorted(found, key=lambda run: run.began)

    def judge(self, one: Statement, began: int, ended: int) -> str:
        """Why a statement that ran between two moments is routine; empty if it is not known to be.

        One other run is enough for an application that writes all the time.
        """
        window, habit = self._window(began, ended), self._statements.get(_shape(one))
        if window is None or habit is None:
            return ""
        found = habit.seen.judge((1, began, ended), window)
        if found.reason or not found.apart or is_shell(one.client.application):
            return _words(one) if found.reason else ""
        writes = self._programs.get(_program(one), _Habit()).seen
        return _words(one) if writes.judge((1, began, ended), window).reason else ""

    def _window(self, began: int, ended: int) -> Window | None:
        """The time around two moments of which the log was read; None if it does not hold them."""
        covered = self._book.covering(began, ended)
        return None if covered is None else Window(covered.first, covered.last)

    def _is_known(self, run: LoggedRun, window: Window) -> bool:
        """Whether everything was logged for long enough about a run."""
        first, last = max(self._whole[0], window.begin), min(self._whole[1], window.end)
        inside = first <= run.began and run.ended <= last and not Window(first, last).is_young
        return inside and not self._is_full and self._linked >= LINKED * self._told


def _extend(runs: list[LoggedRun], one: Statement) -> bool:
    """Add a statement to the runs of its shape. Returns whether it is rare so far."""
    last = runs[-1] if runs else None
    if last is not None and one.began - last.ended <= NEAR_MILLIS:
        last.ended, last.statements = max(last.ended, one.ended), last.statements + 1
        last.documents += one.documents or 0
        last.largest = max(last.largest, one, key=lambda one: one.documents or 0)
    elif len(runs) < _RUNS:
        runs.append(LoggedRun(one, one.began, one.ended, one.documents or 0))
    return len(runs) <= OTHERS and runs[-1].statements <= _BESIDE


def _program(one: Statement) -> Program:
    return one.client.application, one.client.user


def _shape(one: Statement) -> Shape:
    return one.ns, one.op, _program(one), one.shape


def _words(one: Statement) -> str:
    return (
        f"{one.client.application or one.client.user or 'a client'} runs this statement at other times too, by the log"
    )
