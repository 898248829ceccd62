"""Whether bursts are incidents or routine: decided when the list is asked for, from all that was read of a family."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from tallyglass.moment import Ts
from tallyglass.oplog.incidents.burst import MANY, Burst, nothing, together
from tallyglass.oplog.incidents.explanations import Explanations
from tallyglass.oplog.incidents.families import CLUMP_MILLIS, LEAST_RUN, Family
from tallyglass.oplog.incidents.id_order import MARKS
from tallyglass.oplog.incidents.recurrence import (
    EPISODE_MILLIS,
    EXCEPTIONS,
    NEAR_MILLIS,
    OTHERS,
    SIMILAR,
    YOUNG,
    YOUNG_WINDOW_MILLIS,
    Judgment,
    Reason,
    Recurrence,
    Window,
    interval,
)
from tallyglass.oplog.incidents.touched import is_repeated, joined
from tallyglass.oplog.snapshot import StatementPart

MAYBE_TTL = "or the TTL index of this collection"
MAYBE_CAPPED = "or the size limit of this capped collection"

REACH_MILLIS = 250
"""How long a server may pause within the first documents of a statement."""

LEAST = 2
"""The fewest documents of a row without a session."""

FULL = 0.4
"""What lasts for such a share of the window is the steady work of an application."""

ODD = 2
"""So many times as large as all else, seen in fifteen slots, is not what recurs. 1.5 to 2.25 find the same."""

_POOL = 3
"""The fewest sessions whose rows are one row of a pool, if they began and ended together: two may be two scripts."""

_TTL_SLACK_MILLIS, _TTL_STEPS = 2_000, OTHERS
"""How late a pass may begin, and how many intervals from another one: a monitor with much to remove skips some. With
1 s six more rows of a recording are false, with one interval 136 of the labelled corpus; 3 to 5 give the same."""


class Form(Enum):
    """What a row of writes is."""

    MANY = "a statement that may change many documents"
    SINGLE = "single writes of one session"
    BATCH = "a bulkWrite"
    FAN_OUT = "single writes over a pool of sessions"
    LOOP = "single writes without a session"
    SLOW = "single writes with pauses"
    ROUTINE = "all that recurs in a family"


class _Seam(Enum):
    """What the documents on both sides of a pause show."""

    ONE = "one statement"
    OPEN = "one statement or two"
    TWO = "two statements"


@dataclass(slots=True)
class Finding:
    """One row of a family. ``reason`` says why it is routine; None for an act. ``about`` means that the application
    may have written some of the documents, ``may_repeat`` that some were written more than once. ``parts`` are the
    statements that it may be; empty if it is one."""

    burst: Burst
    form: Form
    reason: Reason | None = None
    note: str = ""
    about: bool = False
    may_repeat: bool = False
    times: int = 1
    starts: list[int] = field(default_factory=list)
    sessions: int = 0
    confidence: str = "high"
    parts: tuple[StatementPart, ...] = ()


def judge(family: Family, window: Window, known: Explanations, alike: Recurrence | None = None) -> list[Finding]:
    """The acts of a family, and its routine in one row where it has any. ``alike`` is what was seen of all namespaces
    whose names differ by a number only; None where there is no other."""
    reasons: Counter[Reason] = Counter()
    if family.user is not None:
        acts = _in_sessions(family, window, reasons)
    elif family.op == "d" and family.ns in known.capped:
        acts = _capped(family, window, known, reasons)
    else:
        acts = _plain(family, window, known, reasons)
    _lower_alike(acts, alike, window)
    return [*acts, *_routine(family, acts, reasons)]


def _verdict(burst: Burst, seen: Recurrence, window: Window) -> Judgment:
    """What lasts is steady; of all else the others of its family decide."""
    if burst.millis >= FULL * max(window.millis, YOUNG_WINDOW_MILLIS):
        return Judgment(0, Reason.STEADY)
    return seen.judge(burst.closed, window)


def _routine(family: Family, acts: Sequence[Finding], reasons: Counter[Reason]) -> list[Finding]:
    bursts, whole = [act.burst for act in acts], family.whole.copy()
    whole.documents -= sum(one.documents for one in bursts)
    whole.entries = max(whole.entries - sum(one.entries for one in bursts), 0)
    if not reasons or whole.documents <= 0:
        return []
    reason, kept = max(reasons, key=reasons.__getitem__), family.wide.bursts()
    for one in kept[-1:]:
        whole.samples = one.samples
    starts = [one.first_wall for one in kept if not any(other.overlaps(one) for other in bursts)]
    times = max(family.wide.count + len(family.wide.ends) - len(acts), 1)
    return [Finding(whole, Form.ROUTINE, reason, times=times, starts=starts)]


# Without a session


def _capped(family: Family, window: Window, known: Explanations, reasons: Counter[Reason]) -> list[Finding]:
    """What a size limit removes is routine, but nothing in its entries tells it from a deleteMany: what is unlike all
    else here may be either. Deletes from before the collection was capped are a client's."""
    since, acts = known.since.get(family.ns, 0), []
    for one in family.wide.bursts():
        if one.first >= since:
            reasons[Reason.CAPPED] += one.documents
        elif one.documents >= LEAST:
            acts.append(Finding(one, Form.MANY))
    for row in _plain(family, window, known, Counter()):
        if row.burst.first >= since and row.burst.documents >= MANY:
            row.note, row.confidence = MAYBE_CAPPED, "low"
            acts.append(row)
    return acts


def _plain(family: Family, window: Window, known: Explanations, reasons: Counter[Reason]) -> list[Finding]:
    """Deletes or updates without a session."""
    fine, coarse = family.fine.bursts(), family.wide.bursts()
    seen = family.fine.all_seen(), family.wide.all_seen()
    passes, repairs = _explained(family, coarse, known)
    if passes:
        reasons[Reason.TTL] += sum(one.documents for one in passes)
    if explained := passes or repairs:
        fine, coarse = _outside(fine, explained), _outside(coarse, explained)
        for one in seen:
            one.remove(explained)
    rows = _rows(fine, _verdicts(fine, coarse, seen[0], window), window, LEAST, reasons)
    large = [_verdict(one, seen[1], window) for one in coarse]
    rows = _in_pieces(rows, _rows(coarse, large, window, MANY, Counter()), fine, family.fine.forgotten)
    if family.fine.forgotten:
        for row in rows:
            _take_forgotten(row, coarse)
    rows.sort(key=lambda row: row.burst.first)
    others = family.whole.documents - sum(one.documents for one in (*passes, *repairs, *(row.burst for row in rows)))
    for row in rows:
        _take_beginning(row, rows, fine)
        row.about = row.about or others > 0
        _tell_form(row, fine, alone=not others)
    if family.op == "d" and family.ns in known.ttl:
        _doubt_ttl(rows, passes, known)
    return [*rows, *(Finding(one, Form.MANY, Reason.RETURN) for one in repairs)]


def _explained(family: Family, coarse: list[Burst], known: Explanations) -> tuple[list[Burst], list[Burst]]:
    """The passes of the TTL monitor, and the writes of a return."""
    if family.op == "u":
        return [], [one for one in coarse if known.by_return(family.ns, one)]
    expires = family.op == "d" and family.ns in known.ttl and known.ttl_millis
    return _passes(coarse, known, family.ns) if expires else [], []


def _lower_alike(rows: Iterable[Finding], alike: Recurrence | None, window: Window) -> None:
    """Doubt what recurs in collections whose names differ by a number only."""
    for row in rows:
        if alike is not None and alike.judge(row.burst.closed, window).reason:
            row.confidence, row.note = "low", row.note or "Much like this recurs in collections with such names."


def _doubt_ttl(rows: Iterable[Finding], passes: Sequence[Burst], known: Explanations) -> None:
    """Where documents expire it may be a pass: after a pause of the monitor one is out of step with those before."""
    for row in rows:
        row.note = MAYBE_TTL
        if not known.ttl_millis or any(row.burst.documents <= SIMILAR * one.documents for one in passes):
            row.confidence = "low"
        row.about = row.about or _pass_is_due(row.burst, passes, known.ttl_millis)


def _pass_is_due(burst: Burst, passes: Sequence[Burst], period: int) -> bool:
    """Whether a pass began within a burst, going by the one that is closest: some of its documents had expired."""
    if not passes:
        return False
    closest = min(passes, key=lambda one: abs(one.first_wall - burst.first_wall))
    since_due = (burst.last_wall - closest.first_wall) % period
    return since_due <= burst.millis + _TTL_SLACK_MILLIS


def _tell_form(row: Finding, fine: Sequence[Burst], *, alone: bool) -> None:
    """Whether it is a slow statement, or a loop of single updates where nothing else writes."""
    burst = row.burst
    # There are pauses between its documents, and not only between two dense pieces.
    if burst.documents >= MANY and _is_paused(burst) and _largest(burst, fine) * SIMILAR < burst.documents:
        row.form = Form.SLOW
        row.confidence = "low"
    elif alone and is_repeated(row.burst.touched):
        row.form, row.parts = Form.LOOP, ()


def _verdicts(fine: Sequence[Burst], coarse: Sequence[Burst], seen: Recurrence, window: Window) -> list[Judgment]:
    """What the others say of each burst. One that is a whole episode is compared with whole episodes too: a job whose
    other runs had pauses is known by those. Single documents that follow on each other are no run."""
    runs = [one for one in coarse if one.documents >= MANY and not _is_paused(one)]
    whole, episodes = {one.first: one.documents for one in runs}, Recurrence()
    episodes.add(*((one.documents, one.first_wall, one.first_wall) for one in runs))
    found = []
    for burst in fine:
        verdict = _verdict(burst, seen, window)
        if not verdict.reason and whole.get(burst.first) == burst.documents:
            among = episodes.judge(burst.closed, window)
            verdict = among if among.reason or among.others > verdict.others else verdict
        found.append(verdict)
    return found


def _in_pieces(rows: list[Finding], large: Iterable[Finding], fine: Sequence[Burst], forgotten: int) -> list[Finding]:
    """The rows with those whose pieces are all of usual size, or as small as pieces that are ``forgotten``."""
    for row in large:
        inside = [one for one in rows if one.burst.overlaps(row.burst)]
        once = not any(is_repeated(one.burst.touched) for one in inside)
        if once and is_repeated(row.burst.touched):
            continue  # statements over the same documents
        if all(
            one.burst.documents * 2 < row.burst.documents
            or (row.burst.holds(one.burst) and _largest(one.burst, fine) < SIMILAR * forgotten)
            for one in inside
        ):
            rows = [*(one for one in rows if one not in inside), row]
    return rows


def _largest(burst: Burst, fine: Sequence[Burst]) -> int:
    """The documents of its largest piece that is kept; 0 where all are forgotten."""
    return max((one.documents for one in fine if burst.holds(one)), default=0)


def _is_paused(burst: Burst) -> bool:
    """Whether its documents are single ones, with pauses as long as between statements."""
    return burst.millis >= CLUMP_MILLIS * burst.documents


def _take_forgotten(row: Finding, coarse: Sequence[Burst]) -> None:
    """Begin where the whole began: of very many single writes only some are kept, and the server may have let the
    statement wait within its first documents. Where one that is like what recurs began is not known at all."""
    burst, found = row.burst, list[Burst]()
    for one in coarse:
        if one.overlaps(burst) and (burst.first_wall - one.first_wall <= EPISODE_MILLIS or row.note):
            found.append(one)
    _begin_with(row, found)


def _outside(bursts: Sequence[Burst], passes: Sequence[Burst]) -> list[Burst]:
    """Those that no pass of the TTL monitor holds."""
    firsts = [one.first for one in passes]
    return [
        one for one in bursts if not any(found.holds(one) for found in passes[: bisect_right(firsts, one.first)][-1:])
    ]


def _passes(bursts: Sequence[Burst], known: Explanations, ns: str) -> list[Burst]:
    """The bursts that come at the interval at which the server looks for what has expired."""
    starts, period, since = sorted(one.first_wall for one in bursts), known.ttl_millis, known.since.get(ns, 0)
    found = [
        one
        for one in bursts
        if one.first >= since
        and (
            _in_step(one.first_wall, starts, period, _TTL_SLACK_MILLIS)
            or (period <= EPISODE_MILLIS and one.millis >= 2 * period)  # passes that cannot be told apart
        )
    ]
    return _without_act(found, period, since) if len(found) > 1 else found


def _without_act(passes: list[Burst], period: int, since: int) -> list[Burst]:
    """The passes without one that is in step by chance: many times as large as all others for the time before it.

    After a pause of the monitor, a pass removes what has expired meanwhile.
    """
    usual, largest = sorted(passes, key=lambda one: one.documents)[-2:]
    before = [one.last_wall for one in passes if one.last < largest.first]
    ended = max(before, default=(since >> 32) * 1_000)
    intervals = max((largest.first_wall - ended) / period, 1) if ended else 1
    is_act = largest.documents > SIMILAR * usual.documents * intervals
    return [one for one in passes if one is not largest] if is_act else passes


def _in_step(start: int, starts: Sequence[int], period: int, slack: int) -> bool:
    """Whether two others of the sorted starts, which hold this one too, lie whole periods away."""
    reach, found = _TTL_STEPS * period + slack, -1  # itself
    for other in starts[bisect_left(starts, start - reach) : bisect_right(starts, start + reach)]:
        apart = abs(other - start)
        periods = min(max(round(apart / period), 1), _TTL_STEPS)
        found += other == start or abs(apart - periods * period) <= slack
        if found >= 2:
            return True
    return False


def _odd_ones(bursts: Sequence[Burst]) -> dict[int, str]:
    """The bursts that are not what recurs here, though they have its size: why, by their first entry."""
    found: dict[int, str] = {}
    *_, second, largest = sorted(bursts, key=lambda one: one.documents)
    jobs = [one for one in bursts if one.documents * SIMILAR >= largest.documents]
    if largest.documents >= ODD * second.documents and len({one.first_wall // NEAR_MILLIS for one in jobs}) > YOUNG:
        found[largest.first] = "it is twice as large as all else here"
    starts = sorted(one.first_wall for one in jobs)
    period = interval(starts)
    slack = max(_TTL_SLACK_MILLIS, period // EXCEPTIONS)
    odd = [one for one in jobs if period and not _in_step(one.first_wall, starts, period, slack)]
    if len(odd) * EXCEPTIONS <= len(jobs):  # as few as an interval leaves out
        found |= {one.first: f"it is out of step with all else here, every {period / 1_000:,.0f} s" for one in odd}
    found |= {one.first: "it changes fields that nothing else here changes" for one in _of_other_fields(jobs)}
    found |= {one.first: "its documents are not neighbours by _id, as all else here" for one in _scattered(jobs)}
    return found


def _of_other_fields(jobs: Sequence[Burst]) -> list[Burst]:
    """Those that only change fields which hardly any other one changes: a single one, where there are as many as make a
    job."""
    known = [(one, one.order.fields) for one in jobs if one.order is not None and one.order.fields]
    times = Counter(field for _, fields in known for field in fields)
    few = max(len(known) // EXCEPTIONS, 1) if len(known) > OTHERS else 0
    return [one for one, fields in known if max(times[field] for field in fields) <= few]


def _scattered(jobs: Sequence[Burst]) -> list[Burst]:
    """Those whose documents are not neighbours by ``_id``, where those of nearly all others are: a job that removes
    what belongs together, and a person's filter. Fewer than twenty are so by chance."""
    known = [(one, one.order.neighbours) for one in jobs if one.order is not None and one.documents > MARKS]
    apart = [one for one, neighbours in known if not neighbours and one.documents >= MANY]
    others = sum(neighbours < MARKS - 1 for _, neighbours in known)
    return apart if others * EXCEPTIONS <= len(known) else []


def _rows(
    bursts: Sequence[Burst],
    verdicts: Sequence[Judgment],
    window: Window,
    least: int,
    reasons: Counter[Reason],
    *,
    single: bool = False,
) -> list[Finding]:
    """The acts among bursts in order of time: neighbours that are pieces of one are one, with what lies between.
    ``single``: they are single writes, which may change a document twice."""
    rows: list[list[Burst]] = []
    others: list[int] = []
    between: list[Burst] = []
    opens: set[int] = set()
    alone = not any(one.reason for one in verdicts)
    odd = {} if alone or len(bursts) < 2 else _odd_ones(bursts)
    for burst, verdict in zip(bursts, verdicts, strict=True):
        if verdict.reason and (burst.documents < least or burst.first not in odd):
            between.append(burst)
            reasons[verdict.reason] += burst.documents
            continue
        seam = _seam(rows[-1][-1], burst, alone=alone and not single) if rows else _Seam.TWO
        if seam is _Seam.TWO:
            rows.append([burst])
            others.append(verdict.others)
        else:
            rows[-1] += [*between, burst]
            others[-1] = min(others[-1], verdict.others)
            opens |= {burst.first} if seam is _Seam.OPEN else set()
        between = []
    found = []
    for pieces, similar in zip(rows, others, strict=True):
        for part in _loop_and_statement(pieces):
            # Single documents with pauses between all of them are not known to be of one statement.
            unsure = bool(similar) or window.is_young or all(one.documents < least for one in part)
            found.append(_row_of(part, odd, opens, unsure=unsure))
    return [row for row in found if row.burst.documents >= least]


def _row_of(pieces: list[Burst], odd: Mapping[int, str], opens: Container[int], *, unsure: bool) -> Finding:
    """Some pieces as one row; ``unsure`` because much like it recurs, or nobody knows what is usual."""
    why = next((odd[one.first] for one in pieces if one.first in odd), "")
    note = f"Much like this recurs here, but {why}." if why and unsure else ""
    confidence, parts = "low" if unsure else "high", _parts(pieces, opens)
    return Finding(together(pieces), Form.MANY, note=note, confidence=confidence, parts=parts)


def _loop_and_statement(pieces: list[Burst]) -> Iterable[list[Burst]]:
    """Split a row whose largest piece comes after many small ones: a loop, then a statement."""
    largest = max(range(len(pieces)), key=lambda place: pieces[place].documents)
    before = pieces[:largest]
    if len(before) < YOUNG or sum(one.documents for one in before) * 2 > pieces[largest].documents * len(before):
        return [pieces]
    return [before, pieces[largest:]]


def _seam(older: Burst, newer: Burst, *, alone: bool) -> _Seam:
    """Whether two stretches are one statement. ``alone``: nothing else writes there."""
    gap = older.gap(newer)
    if gap > NEAR_MILLIS or (alone and _touch_one(older, newer)):
        return _Seam.TWO
    before, after = older.order, newer.order
    goes_on = None if before is None or after is None else before.goes_on_in(after)
    if goes_on is None:
        return _Seam.ONE if gap <= EPISODE_MILLIS else _Seam.OPEN
    return _Seam.ONE if goes_on else _Seam.TWO


def _touch_one(older: Burst, newer: Burst) -> bool:
    """Whether two statements each touched a document once, and one of them both."""
    each_once = not is_repeated(older.touched) and not is_repeated(newer.touched)
    return each_once and is_repeated(joined(older.touched, newer.touched))


def _parts(pieces: Sequence[Burst], opens: Container[int]) -> tuple[StatementPart, ...]:
    """The statements that a row may be; empty if it is one."""
    starts = [n for n, one in enumerate(pieces) if not n or one.first in opens]
    parts = [pieces[low:high] for low, high in pairwise([*starts, len(pieces)])] if len(starts) > 1 else []
    return tuple(
        StatementPart(Ts.of_number(part[0].first), Ts.of_number(part[-1].last), sum(one.documents for one in part))
        for part in parts
    )


def _take_beginning(row: Finding, rows: Sequence[Finding], bursts: Sequence[Burst]) -> None:
    """Add what was written shortly before an act: the server may have paused within its first documents."""
    start = row.burst
    for burst in reversed(bursts):
        if burst.first >= row.burst.first:
            continue
        if burst.gap(start) > REACH_MILLIS or burst.documents * SIMILAR >= row.burst.documents:
            return
        if any(one.burst.overlaps(burst) for one in rows if one is not row):
            return
        row.burst = burst.copy().join(row.burst)


# Of sessions


def _in_sessions(family: Family, window: Window, reasons: Counter[Reason]) -> list[Finding]:
    """Single deletes or updates by the sessions of one user."""
    pool, runs = family.fine.all_seen(), family.wide.bursts()
    acts = _session_acts(family, runs, window, reasons)
    shared, started = bool(reasons), _may_be_started(family, window)
    young = started and len({run.session for run in runs}) >= _POOL
    found = [_session_finding(run, window, low=low or young) for run, low in acts if run.documents >= LEAST_RUN]
    dense = family.fine.bursts()
    for row in found:
        _read_stretches(row, dense)
    verdicts = [_verdict(one, pool, window) for one in dense]
    spread = _rows(dense, verdicts, window, MANY, Counter(), single=True)
    for one, verdict in zip(dense, verdicts, strict=True):
        if verdict.reason and one.documents >= MANY:
            reasons[verdict.reason] += one.documents
    if started and spread:
        spread = [replace(spread[0], burst=together([one.burst for one in spread]), confidence="low")]
    for row in spread:
        _take_beginning(row, spread, dense)
        if row.burst.last_wall >= window.end - NEAR_MILLIS:
            row.confidence = "low"
    found, spread = _with_pools(found, family, runs, spread, shared=shared)
    return _pools(found, family, runs, spread, shared)


def _session_acts(
    family: Family, runs: Sequence[Burst], window: Window, reasons: Counter[Reason]
) -> list[tuple[Burst, bool]]:
    """The runs of sessions that do not recur, each with whether that is unsure: those of one session as one where it
    paused for a moment."""
    seen, batches = family.wide.all_seen(), family.wide.all_batches()
    acts: list[tuple[Burst, bool]] = []
    last: dict[bytes, int] = {}
    for run in runs:
        verdict = _session_verdict(run, runs, seen, batches, window)
        if verdict.reason:
            if run.documents >= LEAST_RUN:
                reasons[verdict.reason] += run.documents
            continue
        at, low = last.get(run.session), bool(verdict.others) or window.is_young
        if at is not None and acts[at][0].gap(run) <= NEAR_MILLIS:
            whole, unsure = acts[at]
            acts[at] = whole.copy().join(run), unsure and low
        else:
            last[run.session] = len(acts)
            acts.append((run, low))
    return acts


def _read_stretches(row: Finding, dense: Sequence[Burst]) -> None:
    """What is known of a session's writes where dense stretches are all of them: the documents, and the two or three
    loops that they may be, with pauses of more than a second."""
    inside = [one for one in dense if row.burst.holds(one)]
    if sum(one.documents for one in inside) != row.burst.documents:
        # Among writes of others that touched a document twice, this session may have.
        row.may_repeat = any(is_repeated(one.touched) for one in dense if one.overlaps(row.burst))
        return
    row.burst = replace(row.burst, touched=together(inside).touched)
    opens = {newer.first for older, newer in pairwise(inside) if older.gap(newer) > EPISODE_MILLIS}
    parts = _parts(inside, opens)
    if len(parts) <= OTHERS and all((one.documents or 0) >= LEAST_RUN for one in parts):
        row.parts = parts


def _may_be_started(family: Family, window: Window) -> bool:
    """Whether a pool may be of an application that was just started: all its writes are minutes old, and it goes on, or
    has paused for a quarter of its time at most."""
    whole = family.whole
    pause = max(NEAR_MILLIS, whole.millis // SIMILAR)
    return whole.first_wall > window.end - YOUNG_WINDOW_MILLIS and whole.last_wall >= window.end - pause


def _pools(
    found: list[Finding], family: Family, runs: Sequence[Burst], spread: Iterable[Finding], shared: bool
) -> list[Finding]:
    """The acts with those of a pool as one row each, for which no single session accounts."""
    for row in spread:
        inside = [run for run in runs if run.overlaps(row.burst)]
        by_held = sum(run.documents for run in inside if row.burst.holds(run))
        by_session = _by_session(inside, row.burst)
        session, most = max(by_session.items(), key=lambda one: one[1], default=(b"", 0))
        shown = [one for one in found if one.burst.overlaps(row.burst)]
        if shown and len(by_session) < _POOL:
            continue
        if most * 2 >= row.burst.documents and (shared or not _leave_out(shown, row.burst, family)):
            if not shown:
                # What one session wrote at once, though as many are usual for whole runs or batches of sessions here.
                burst = replace(row.burst, session=session, user=family.user or b"")
                row = replace(row, burst=burst, form=Form.SINGLE, sessions=1, about=True, parts=(), confidence="low")
                found.append(row)
            continue
        found = [one for one in found if one.form == Form.FAN_OUT or not one.burst.overlaps(row.burst)]
        row.form, row.sessions = Form.FAN_OUT, len(by_session)
        row.about = shared or by_held != row.burst.documents
        _begin_with_sessions(row, inside)
        row.parts = ()
        row.burst.user = family.user or b""
        found.append(row)
    return found


def _by_session(runs: Sequence[Burst], burst: Burst) -> Counter[bytes]:
    """About how many documents of a burst each session wrote, by its runs that overlap it."""
    shares = [run.documents * _common_share(run, burst) for run in runs]
    # A worker that wrote long before and after did not write this, where those that only wrote now did.
    enough = sum(shares) * 2 >= burst.documents
    written: Counter[bytes] = Counter()
    for run, share in zip(runs, shares, strict=True):
        written[run.session] += round(share) if enough else run.documents
    return written


def _leave_out(rows: Sequence[Finding], burst: Burst, family: Family) -> bool:
    """Whether rows of sessions lack some documents of a stretch without a pause, those of sessions that wrote little.
    With pauses, they may be scripts of their own beside an application."""
    held = sum(row.burst.documents for row in rows if burst.holds(row.burst))
    return bool(rows) and held < burst.documents and _is_one_stretch(burst, family)


def _is_one_stretch(burst: Burst, family: Family) -> bool:
    """Whether it was written without a pause."""
    return any(one.holds(burst) for one in family.fine.bursts())


def _common_share(run: Burst, burst: Burst) -> float:
    """Which share of a run's time (0..1) lies within a burst that it overlaps."""
    common = min(run.last_wall, burst.last_wall) - max(run.first_wall, burst.first_wall)
    return (common + 1) / (run.millis + 1)


def _with_pools(
    found: list[Finding], family: Family, runs: Sequence[Burst], spread: list[Finding], *, shared: bool
) -> tuple[list[Finding], list[Finding]]:
    """The acts of sessions with those of a pool as one row each, and the dense stretches that these do not explain: one
    that is of another session's row too is a row of its own."""
    for group in _begun_together(found):
        whole, others = _of_pool(group, family, shared=shared), _without(found, group)
        dense = [row for row in spread if row.burst.overlaps(whole.burst)]
        alone = not any(row.burst.overlaps(whole.burst) for row in others)
        by_all = sum(row.burst.documents for row in dense)
        # One stretch without a pause is of the pool, with the sessions that wrote too little for a row of their own.
        others_may = by_all // EXCEPTIONS if _is_one_stretch(whole.burst, family) else by_all // 2
        least = max(MANY, by_all - others_may if alone else by_all)
        if whole.burst.documents >= least:
            _begin_with_sessions(whole, runs)
            found = [*others, whole]
            spread = _without(spread, dense)
    return found, spread


def _begun_together(rows: Iterable[Finding]) -> list[list[Finding]]:
    """The rows of sessions that began and ended together, as those of a pool do: three at least, with those that wrote
    no more than they did, within ten seconds of their time."""
    rows, groups = sorted(rows, key=lambda row: row.burst.first), list[list[Finding]]()
    for row in rows:
        group = next((group for group in groups if _began_and_ended_like(row.burst, group[0].burst)), None)
        if group is None:
            groups.append([row])
        else:
            group.append(row)
    pools = [group for group in groups if len(group) >= _POOL]
    others = [row for group in groups if len(group) < _POOL for row in group]
    for group in pools:
        begin = group[0].burst.first_wall - NEAR_MILLIS
        end = max(row.burst.last_wall for row in group) + NEAR_MILLIS
        most = max(row.burst.documents for row in group)
        of_it = [row for row in others if begin <= row.burst.first_wall and row.burst.last_wall <= end]
        of_it = [row for row in of_it if row.burst.documents <= most]
        group += of_it
        others = _without(others, of_it)
    return pools


def _without(rows: Iterable[Finding], some: Iterable[Finding]) -> list[Finding]:
    """The rows that are not among some of them, by identity: to compare what they hold takes long for thousands."""
    left_out = set(map(id, some))
    return [row for row in rows if id(row) not in left_out]


def _began_and_ended_like(run: Burst, other: Burst) -> bool:
    """Whether two runs began and ended within ten seconds of each other, or within a quarter of their time."""
    reach = max(NEAR_MILLIS, other.millis // SIMILAR)
    return max(abs(run.first_wall - other.first_wall), abs(run.last_wall - other.last_wall)) <= reach


def _of_pool(rows: Sequence[Finding], family: Family, *, shared: bool) -> Finding:
    """The rows of a pool's sessions as one, exact if they wrote all that was written meanwhile, each all the time."""
    whole = nothing()
    for row in rows:
        whole.count(row.burst)
    inside = [one for one in family.fine.bursts() if one.overlaps(whole)]
    whole.user, whole.samples = family.user or b"", rows[0].burst.samples
    whole.touched = together(inside).touched if inside else ()
    meanwhile = family.whole.documents if family.fine.forgotten else sum(one.documents for one in inside)
    confidence = "low" if all(row.confidence == "low" for row in rows) else "high"
    partly = not all(_began_and_ended_like(row.burst, rows[0].burst) for row in rows)
    about, sessions = shared or partly or meanwhile != whole.documents, len({row.burst.session for row in rows})
    return Finding(whole, Form.FAN_OUT, about=about, sessions=sessions, confidence=confidence)


def _begin_with_sessions(row: Finding, runs: Iterable[Burst]) -> None:
    """Begin where the first of the sessions began, shortly before the others: what it wrote until then may be among the
    single writes that are not kept."""
    _begin_with(row, (run for run in runs if row.burst.first_wall - run.first_wall <= EPISODE_MILLIS))


def _begin_with(row: Finding, bursts: Iterable[Burst]) -> None:
    """Begin where the first of these began."""
    begun = min(bursts, key=lambda one: one.first, default=row.burst)
    if begun.first < row.burst.first:
        row.about, row.burst = True, replace(row.burst, first=begun.first, first_wall=begun.first_wall)


def _session_verdict(
    run: Burst, runs: Sequence[Burst], seen: Recurrence, batches: Recurrence, window: Window
) -> Judgment:
    """Routine too if batches of its largest size recur, and it is not the only run that had such."""
    verdict = _verdict(run, seen, window)
    alike = any(other is not run and other.batch * SIMILAR >= run.batch for other in runs)
    if verdict.reason or run.batch < 2 or not alike:
        return verdict
    among = batches.judge((run.batch, 0, 0), window)
    return among if among.reason else verdict


def _session_finding(run: Burst, window: Window, *, low: bool) -> Finding:
    form = Form.BATCH if run.batch >= MANY and run.batch * 2 >= run.documents else Form.SINGLE
    goes_on = run.last_wall >= window.end - NEAR_MILLIS
    # Each deployment begins and ends some workers.
    worker = _is_paused(run) and (goes_on or run.millis >= YOUNG_WINDOW_MILLIS)
    note = f"a worker that {'began' if goes_on else 'ended'}, or a script that pauses" if worker else ""
    return Finding(run, form, note=note, sessions=1, confidence="low" if low or worker else "high")
