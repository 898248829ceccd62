"""Whether single writes of sessions are incidents or routine, by what is usual on their namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tallyglass.oplog.incidents.burst import Burst, burst_of
from tallyglass.oplog.incidents.families import LEAST_FAN_OUT, LEAST_RUN, RUN_MILLIS, Family, Folded
from tallyglass.oplog.incidents.rhythm import in_step, period_of
from tallyglass.oplog.incidents.sizes import SizeHistogram
from tallyglass.oplog.incidents.verdict import (
    PACE,
    PACE_BURSTS,
    PACE_MINUTES,
    USUAL_FACTOR,
    USUAL_RATE,
    FamilyVerdict,
    Finding,
    Window,
    cover,
    every,
    is_steady,
    is_young,
    join_pieces,
    like_others,
    rest_of,
    whole_of,
)

_PACE_RUNS = 12
_PACE_PAUSE_MILLIS = 500
_RHYTHM_MILLIS = 600_000
_THIN_MILLIS = 30_000
_LIKE_IT = 3
_SPREAD_MILLIS = 60_000
"""How far around a dense stretch the writes of other sessions may belong to it."""


@dataclass(frozen=True, slots=True)
class _Usual:
    """What the sessions of one namespace usually do there: a rate in documents per millisecond, the size of a clump of
    all sessions together (0 where there were too few), and the period of the runs in milliseconds, or 0."""

    window: Window
    runs: list[Burst]
    sizes: SizeHistogram
    folded: Folded
    young: bool
    rate: float
    covered: float
    clump: int
    period: int
    starts: list[int]
    batches: list[int]

    def is_odd_form(self, run: Burst) -> bool:
        """Whether hardly any other run here is a loop, or a script from its first statement on, as this one is."""
        if run.form == "mixed":
            return False
        forms = Counter(one.form for one in self.runs) + self.folded.forms
        alike = forms["script"] + (forms["loop"] if run.form == "loop" else 0)
        return alike - 1 < _LIKE_IT

    def is_only_script(self, run: Burst) -> bool:
        """Whether nothing but one session, from its first statement on, writes here."""
        return run.low <= 2 and run.purity >= 0.9 and len(self.runs) == 1

    @property
    def median(self) -> int:
        """The documents of a run in the middle."""
        ordered = sorted(one.documents for one in self.runs)
        return ordered[len(ordered) // 2]


def judge_runs(family: Family, runs: list[Burst], window: Window, pool: Family | None) -> FamilyVerdict:
    """Single deletes or updates by one session each; ``pool`` holds those of all sessions together."""
    closed = {id(one) for one in family.clumps}
    sizes = family.clump_sizes.copy()
    for one in runs:
        if id(one) not in closed:
            sizes.add(one.documents)
    runs = [one for one in runs if one.documents >= LEAST_RUN]
    if not runs:
        return FamilyVerdict()
    runs.sort(key=lambda one: one.first)
    usual = _usual(family, runs, sizes, window, pool)
    acts, routine, reason = [], 0, ""
    for run in runs:
        why = _why_routine(run, usual)
        if why:
            routine, reason = routine + 1, why
        else:
            acts.append(run)
    found = [_session_finding(one) for one in _one_session(acts)]
    rest, entries = rest_of(family, found)
    row = None
    if routine:
        row = Finding(whole_of(family, rest, entries), "single", reason, times=routine + family.folded.bursts)
    return FamilyVerdict(found, row)


def _usual(family: Family, runs: list[Burst], sizes: SizeHistogram, window: Window, pool: Family | None) -> _Usual:
    starts = sorted({*(one.first_wall for one in runs), *family.folded.starts})
    lasting = starts[-1] - starts[0] >= _RHYTHM_MILLIS
    clump = 0
    if pool is not None and pool.clump_sizes.count >= PACE_BURSTS and pool.active_minutes >= PACE_MINUTES:
        clump = pool.clump_sizes.usual()
    return _Usual(
        window, runs, sizes, family.folded, is_young(family, window),
        family.documents / max(family.active_minutes, 1) / 60_000, cover(family, window), clump,
        period_of(starts) if lasting else 0, starts, [one.batch for one in runs if one.batch >= LEAST_RUN],
    )  # fmt: skip


def _session_finding(run: Burst) -> Finding:
    form = "batch" if run.batch >= LEAST_RUN and run.batch * 2 >= run.documents else "single"
    if form == "single" and run.documents and run.millis > 500 * run.documents:
        form = "slow"
    return Finding(run, form, sessions=1, confidence="medium" if run.purity < 0.9 else "high")


def _why_routine(run: Burst, usual: _Usual) -> str:
    """Why a run is the work of an application; empty for an act."""
    if _is_steady_worker(run, usual):
        return "steady session"
    regular = usual.period and in_step(run.first_wall, usual.starts, usual.period)
    if regular and run.documents <= USUAL_FACTOR * usual.median:
        return every(usual.period)
    if _keeps_pace(run, usual):
        return PACE
    if run.batch >= LEAST_RUN:
        alike = sum(run.batch <= 2 * other and other <= 4 * run.batch for other in usual.batches) - 1
        if alike >= _LIKE_IT and not usual.young:
            return "batches of this size are usual here"
        if run.batch * 2 >= run.documents:
            return ""
    if run.purity < 0.3:
        return "an application's session"
    own_rate = run.documents / max(run.millis, 1_000)
    if usual.covered > 0.5 and own_rate <= 3 * usual.rate and run.purity < 0.9:
        return USUAL_RATE
    return "usual size here" if _is_usual_size(run, usual) else ""


def _is_steady_worker(run: Burst, usual: _Usual) -> bool:
    """Whether a session lasted so long that it is a worker; not a script that began and ended meanwhile."""
    if not is_steady(run, usual.window):
        return False
    alone = usual.is_only_script(run) and run.millis <= _THIN_MILLIS * run.documents
    inside = usual.window.begin + 60_000 < run.first_wall and run.last_wall < usual.window.end - 60_000
    return not (alone and inside)


def _keeps_pace(run: Burst, usual: _Usual) -> bool:
    """Whether an application writes like this here again and again, even if it was started only recently.

    A script that archives writes elsewhere in between, too, but it is one run, and pauses less.
    """
    if not usual.clump or run.batch > USUAL_FACTOR * usual.clump or usual.is_odd_form(run):
        return False
    pauses = run.batch > 1 and run.millis >= _PACE_PAUSE_MILLIS * run.statements and not usual.is_only_script(run)
    if usual.sizes.count < _PACE_RUNS and not pauses:
        return False
    own_rate = run.documents / max(run.millis, 1_000)
    return run.documents <= USUAL_FACTOR * usual.clump or own_rate <= 3 * usual.rate


def _is_usual_size(run: Burst, usual: _Usual) -> bool:
    size = usual.sizes.usual(run.documents)
    if usual.young or run.documents > USUAL_FACTOR * size or (usual.is_odd_form(run) and run.documents > size):
        return False
    others, folded = [other for other in usual.runs if other is not run], usual.folded.bursts
    alike = sum(run.documents <= 2 * other.documents and other.documents <= 4 * run.documents for other in others)
    return folded >= 16 or (len(others) + folded >= 4 and alike + folded >= _LIKE_IT)


def _one_session(runs: list[Burst]) -> list[Burst]:
    """Join consecutive runs of the same session."""
    joined: list[Burst] = []
    last: dict[bytes, Burst] = {}
    for run in runs:
        before = last.get(run.session)
        if before is not None and before.gap(run) <= RUN_MILLIS:
            before.absorb(run)
            continue
        few, run = run.before, run.copy()
        if few is not None and len(few) < LEAST_RUN:
            before = burst_of(few, run.session)
            if _same_loop(before, run):
                run.absorb(before)
        last[run.session] = run
        joined.append(run)
    return joined


def _same_loop(before: Burst, run: Burst) -> bool:
    """Whether a few writes before a loop belong to it: some statements of a loop may change nothing."""
    statements = before.statements + run.statements
    return run.low >= 0 and before.low >= 0 and statements >= 0.6 * (run.high - before.low + 1)


def judge_fan_out(family: Family, runs: FamilyVerdict, all_runs: list[Burst], window: Window) -> list[Finding]:
    """Work that one client spread over a pool of sessions; removes its runs from ``runs``.

    What the other sessions wrote here at that time is part of it, since nothing tells it apart.
    """
    found = list[Finding]()
    rate = family.documents / max(family.active_minutes, 1) / 60_000
    clumps, episodes = family.all_clumps(), family.all_episodes()
    closed = {id(one) for one in family.clumps}
    for clump in clumps:
        if clump.documents < LEAST_FAN_OUT or is_steady(clump, window):
            continue
        usual = family.clump_sizes.usual(clump.documents if id(clump) in closed else None)
        common = clump.documents <= 8 * usual or clump.documents / max(clump.millis, 1) <= 10 * rate
        if common and not (is_young(family, window) and usual == 0):
            continue
        if _largest_share([one for one in all_runs if one.overlaps(clump)]) * 2 >= clump.documents:
            continue
        if len(clumps) > 4 and like_others(clump, clumps, family, window):
            continue
        if not any(clump.overlaps(one.burst) for one in found):
            found.append(_spread(clump, episodes, all_runs))
    runs.acts = [act for act in runs.acts if not any(_is_inside(act.burst, one.burst) for one in found)]
    return join_pieces(found, family, window)


def _spread(clump: Burst, episodes: Iterable[Burst], all_runs: list[Burst]) -> Finding:
    """The writes of all sessions around a dense stretch, from a minute before it at the earliest."""
    near = [one for one in episodes if one.gap(clump) <= _SPREAD_MILLIS]
    begin, end = clump.first_wall - _SPREAD_MILLIS, clump.last_wall + _SPREAD_MILLIS
    whole = [one for one in near if begin <= one.first_wall and one.last_wall <= end]
    around = next((one.copy() for one in whole if one.overlaps(clump)), clump.copy())
    for one in whole:
        if not one.overlaps(around):
            around.absorb(one)
    note = "Other sessions may have written some of these documents."
    if any(one.first < around.first for one in near):
        around.first, around.first_wall = clump.first - ((_SPREAD_MILLIS // 1_000) << 32), begin
        note = f"{note} Sessions write here all the time: the point is a minute before the dense part."
    inside = [one for one in all_runs if one.overlaps(around)]
    users = {one.user for one in inside}
    if len(users) == 1 and sum(one.documents for one in inside) == around.documents:
        around.user = users.pop()
    sessions = max(len({one.session for one in inside}), 2)
    return Finding(around, "fan_out", note=note, about=True, confidence="medium", sessions=sessions)


def _is_inside(one: Burst, other: Burst) -> bool:
    return other.first <= one.first and one.last <= other.last


def _largest_share(runs: Iterable[Burst]) -> int:
    """The documents of the session that wrote most."""
    by_session: Counter[bytes] = Counter()
    for run in runs:
        by_session[run.session] += run.documents
    return max(by_session.values(), default=0)
