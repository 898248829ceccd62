"""Whether bursts are incidents or routine: decided once the usual writes of the namespace are known."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tallyglass.oplog.incidents.burst import Burst
from tallyglass.oplog.incidents.families import CLUMP_MILLIS, LEAST_RUN, LEAST_UNUSUAL, Family
from tallyglass.oplog.incidents.rhythm import TTL_MILLIS, in_step, in_step_with_ttl, period_of

USUAL_FACTOR = 5
"""A burst of more than this many times the usual size is unusual."""

JOIN_MILLIS = 3_000
MAYBE_TTL = "or the TTL index of this collection"
_QUIET_JOIN_MILLIS, _YOUNG_JOIN_MILLIS, _LONGEST_JOIN_MILLIS = 10_000, 30_000, 120_000
_STEADY_MILLIS = 1_800_000
_STEADY_SHARE, _YOUNG_SHARE = 0.4, 0.25
_STEADY_WINDOW_MILLIS = 600_000
_BASELINE_EPISODES = 5
_COVER_TO_CUT = 0.3
_PAUSE_MILLIS, _CHANCE = 250, 0.01
"""How long a server may pause within a statement, and how likely other clients write as much in that time."""

_FEW_CLUMPS = 3


@dataclass(frozen=True, slots=True)
class Window:
    """The span of the oplog that was read, in milliseconds since 1970."""

    begin: int
    end: int

    @property
    def millis(self) -> int:
        """Its length, at least a minute."""
        return max(self.end - self.begin, 60_000)


@dataclass(slots=True)
class Finding:
    """One row of a family: a burst, or several joined.

    ``reason`` says why it is routine; empty for an act. ``about`` means that the application may have written some of
    the documents.
    """

    burst: Burst
    form: str
    reason: str = ""
    note: str = ""
    about: bool = False
    times: int = 1
    sessions: int = 0
    confidence: str = "high"


@dataclass(slots=True)
class FamilyVerdict:
    """The incidents of a family, and its routine in one row; None if there is none."""

    acts: list[Finding] = field(default_factory=list)
    routine: Finding | None = None


def cover(family: Family, window: Window) -> float:
    """The share of the window's minutes in which the family wrote."""
    return min(1.0, family.active_minutes / (window.millis / 60_000))


def is_young(family: Family, window: Window) -> bool:
    """Whether all writes of a family are so close together that there is no baseline."""
    return family.last_wall - family.first_wall <= _YOUNG_SHARE * window.millis


def is_steady(burst: Burst, window: Window) -> bool:
    """Whether it lasted long enough to be the usual work of an application."""
    if burst.millis > _STEADY_MILLIS:
        return True
    return window.millis >= _STEADY_WINDOW_MILLIS and burst.millis > _STEADY_SHARE * window.millis


USUAL_RATE = "usual rate here"
"""The reason for what is written where an application writes all the time."""

PACE = "usual pace here"
"""The reason for what keeps a pace."""

PACE_BURSTS = 20
"""The fewest bursts that show a pace: more than a person makes by hand, one statement for each of a few customers."""

PACE_MINUTES = 3
_PACE_PAUSE_MILLIS = 1_000


def keeps_a_pace(family: Family) -> bool:
    """Whether a family writes again and again, with pauses and about the same number of documents: an application.

    It may have been started only recently. One statement that is slow has far shorter pauses, or fewer.
    """
    sizes, minutes = family.clump_sizes, family.active_minutes
    if sizes.count < PACE_BURSTS or minutes < PACE_MINUTES:
        return False
    return minutes * 60_000 >= _PACE_PAUSE_MILLIS * sizes.count and sizes.are_alike and sizes.usual() > 1


# Writes without a session


@dataclass(frozen=True, slots=True)
class Explained:
    """What a collection's definition explains: deletes by a TTL index or a size limit, ``since`` a timestamp."""

    ttl: bool = False
    capped: bool = False
    since: int = 0


def judge_plain(family: Family, window: Window, explained: Explained) -> FamilyVerdict:
    """Deletes or updates without a session."""
    clumps, episodes = family.all_clumps(), family.all_episodes()
    ttl = explained.ttl and family.op == "d"
    if explained.capped and family.op == "d":
        return _capped(family, episodes, explained.since)
    paced = not ttl and keeps_a_pace(family)
    if paced:
        window = Window(family.first_wall, family.last_wall)
        acts, reason = _against_baseline(family, clumps, episodes, window, None, paced=True)
    elif family.episode_count < _BASELINE_EPISODES and not any(is_steady(one, window) for one in episodes):
        acts, reason = [Finding(one, "many") for one in _split(episodes, clumps)], ""
        rhythm = _by_rhythm(episodes, clumps, explained if ttl else None, family)
        if rhythm is not None:
            acts, reason = rhythm
        elif ttl:
            for act in acts:
                act.note = MAYBE_TTL
    else:
        acts, reason = _against_baseline(family, clumps, episodes, window, explained if ttl else None)
    joined = join_pieces(acts, family, window)
    shared = _is_shared(family, rest_of(family, joined)[1], window)
    for act in joined:
        if shared and reason != "ttl":
            _take_beginning(act, joined, clumps, family)
            _cut(act, family)
            act.about = True
            act.confidence = "medium"
        if act.form == "many" and _is_slow(act.burst, clumps):
            act.form = "slow"
            act.confidence = "low"
    rest, entries = rest_of(family, joined)
    routine = None
    if reason and rest > 0:
        whole = whole_of(family, rest, entries)
        times = max(len(episodes) + family.folded.bursts - len(joined), 1)
        routine = Finding(whole, "many", reason, times=times)
    return FamilyVerdict(joined, routine)


def _is_shared(family: Family, others: int, window: Window) -> bool:
    """Whether the number of entries outside any act shows that other clients write there all the time.

    Without other writers a pause within a statement is the server's own, and a cut there would make the point too late.
    """
    minutes = window.millis / 60_000
    return cover(family, window) >= _COVER_TO_CUT and others >= max(_BASELINE_EPISODES, _COVER_TO_CUT * minutes)


def _capped(family: Family, episodes: list[Burst], since: int) -> FamilyVerdict:
    """What a size limit removed; deletes from before the collection was capped are a client's."""
    acts = [Finding(one, "many") for one in episodes if one.first < since]
    rest, entries = rest_of(family, acts)
    times = len(episodes) - len(acts) + family.folded.bursts
    if rest <= 0 or not times:
        return FamilyVerdict(acts)
    return FamilyVerdict(acts, Finding(whole_of(family, rest, entries), "many", "capped", times=times))


def _starts(bursts: Sequence[Burst], family: Family) -> list[int]:
    return sorted({*(one.first_wall for one in bursts), *family.folded.starts})


def rest_of(family: Family, acts: Iterable[Finding]) -> tuple[int, int]:
    """Documents and entries of a family that are not part of an act."""
    bursts = [act.burst for act in acts]
    return family.documents - sum(one.documents for one in bursts), family.entries - sum(one.entries for one in bursts)


def whole_of(family: Family, documents: int, entries: int) -> Burst:
    whole = Burst(family.first, family.last, family.first_wall, family.last_wall, entries, documents)
    for one in (family.all_clumps() or family.all_episodes())[-1:]:
        whole.samples = one.samples
    return whole


def _split(episodes: Sequence[Burst], clumps: Sequence[Burst]) -> Iterable[Burst]:
    """Split an episode of two or three dense stretches, with pauses between them, into its statements."""
    for episode in episodes:
        inside = [one for one in clumps if episode.first <= one.first and one.last <= episode.last]
        dense = sum(one.documents for one in inside) == episode.documents
        if not 1 < len(inside) <= _FEW_CLUMPS or not dense:
            yield episode
            continue
        apart = all(left.gap(right) > JOIN_MILLIS for left, right in itertools.pairwise(inside))
        found = [inside[0].copy()]
        for left, right in itertools.pairwise(inside):
            if _are_two(left, right) or (apart and not _goes_on(left, right)):
                found.append(right.copy())
            else:
                found[-1].absorb(right)
        yield from found if len(found) > 1 else (episode,)


def _are_two(left: Burst, right: Burst) -> bool:
    """Whether two stretches, the older one first, are two statements for certain."""
    before, after = left.order, right.order
    return before is not None and after is not None and before.is_apart_from(after)


def _goes_on(left: Burst, right: Burst) -> bool:
    """Whether the newer stretch looks like the rest of the statement that wrote the older one."""
    before, after = left.order, right.order
    return before is not None and after is not None and before.goes_on_in(after)


def _against_baseline(
    family: Family,
    clumps: list[Burst],
    episodes: list[Burst],
    window: Window,
    ttl: Explained | None,
    *,
    paced: bool = False,
) -> tuple[list[Finding], str]:
    """The unusual bursts, and the routine."""
    bursts = _outstanding_clumps(family, clumps)
    mixed = paced or any(is_steady(one, window) for one in episodes)
    looked_at = bursts if mixed else episodes
    found = _by_rhythm(looked_at, [] if mixed else clumps, ttl, family)
    if found is not None:
        acts, reason = found
        if not mixed:
            return [_narrowed(act, bursts) for act in acts], reason
        return acts, USUAL_RATE
    if mixed:
        acts = [Finding(one, "many") for one in bursts if not like_others(one, bursts, family, window)]
        return acts, PACE if paced else USUAL_RATE
    if is_young(family, window) and family.episode_count < 4 * _BASELINE_EPISODES:
        return [Finding(one, "many") for one in episodes], ""
    acts = []
    for episode in episodes:
        inside = [one for one in bursts if episode.first <= one.first and one.last <= episode.last]
        inside = [one for one in inside if not like_others(one, bursts, family, window)]
        if inside:
            acts += [Finding(one, "many") for one in inside]
        elif _is_unusual(episode, family) and not _is_at_usual_rate(episode, family):
            acts.append(Finding(episode, "many"))
    return acts, "usual size here"


def _outstanding_clumps(family: Family, clumps: list[Burst]) -> list[Burst]:
    sizes = family.clump_sizes
    closed = {id(one) for one in family.clumps}
    found = []
    for one in clumps:
        usual = sizes.usual(one.documents if id(one) in closed else None)
        if one.documents >= max(LEAST_UNUSUAL, USUAL_FACTOR * max(usual, 1)) or usual == 0:
            found.append(one)
    return found


def _is_unusual(episode: Burst, family: Family) -> bool:
    closed = any(one is episode for one in family.episodes)
    usual = family.episode_sizes.usual(episode.documents if closed else None)
    return episode.documents > USUAL_FACTOR * usual


def _is_at_usual_rate(episode: Burst, family: Family) -> bool:
    """Whether a long episode has at most three times the family's mean rate over its active minutes."""
    minutes = max(family.active_minutes, 1)
    usual_rate = family.documents / minutes / 60_000
    return episode.millis > 60_000 and episode.documents / max(episode.millis, 1) <= 3 * usual_rate


def like_others(one: Burst, bursts: Sequence[Burst], family: Family, window: Window) -> bool:
    """Whether at least four others of similar size are spread over the time: a separate job."""
    if is_young(family, window):
        return False
    alike = [
        other
        for other in bursts
        if other is not one and one.documents <= USUAL_FACTOR * other.documents <= USUAL_FACTOR**2 * one.documents
    ]
    if len(alike) < 4:
        return False
    walls = [other.first_wall for other in alike]
    return max(walls) - min(walls) > _YOUNG_SHARE * window.millis


def _by_rhythm(
    bursts: list[Burst], clumps: list[Burst], ttl: Explained | None, family: Family
) -> tuple[list[Finding], str] | None:
    """The bursts that are out of step with the others or too large; None if there is no rhythm.

    If a burst also holds a regular one, only its ``clumps`` that are out of step count.
    """
    steps: Callable[[int], bool]
    starts = _starts(bursts, family)
    period = TTL_MILLIS if ttl is not None else period_of(starts)
    if not period:
        return None
    if ttl is not None:
        steps = functools.partial(in_step_with_ttl, starts=starts)
    else:
        steps = functools.partial(in_step, starts=starts, period=period)
    regular = [steps(one.first_wall) and (ttl is None or one.first >= ttl.since) for one in bursts]
    if ttl is not None and not any(regular) and not family.folded.bursts:
        return None
    acts, usual = [], _median(bursts, family)
    for one, stepped in zip(bursts, regular, strict=True):
        if stepped and one.documents <= USUAL_FACTOR * usual:
            continue
        note = (
            f"{one.documents / max(usual, 1):.0f} times the usual size of what runs here {every(period)}"
            if stepped
            else f"out of step with what runs here {every(period)}"
        )
        inside = [clump for clump in clumps if clump.overlaps(one)]
        irregular = [clump for clump in inside if not steps(clump.first_wall)]
        burst = _one_burst(irregular) if len(irregular) < len(inside) else None
        acts.append(Finding(burst or one, "many", note=f"{note}; {MAYBE_TTL}" if ttl is not None else note))
    return acts, "ttl" if ttl is not None else every(period)


def _one_burst(bursts: Sequence[Burst]) -> Burst | None:
    """All of them as one; None if there are none."""
    if not bursts:
        return None
    whole = bursts[0].copy()
    for one in bursts[1:]:
        whole.absorb(one)
    return whole


def _median(bursts: Sequence[Burst], family: Family) -> float:
    """The usual size: of the kept bursts, or of the folded ones if there are more of those."""
    folded = family.folded
    if folded.bursts > len(bursts):
        return folded.documents / folded.bursts
    ordered = sorted(one.documents for one in bursts)
    return ordered[len(ordered) // 2] if ordered else 0


def every(period: int) -> str:
    return f"every {period / 1_000:.0f} s"


def _narrowed(act: Finding, bursts: Sequence[Burst]) -> Finding:
    """Replace an episode by the dense statement that makes up most of it."""
    inside = [one for one in bursts if act.burst.first <= one.first and one.last <= act.burst.last]
    if len(inside) == 1 and inside[0].documents * 2 >= act.burst.documents:
        act.burst = inside[0]
    return act


def join_pieces(acts: list[Finding], family: Family, window: Window) -> list[Finding]:
    """Join neighbours that are pieces of one act."""
    acts.sort(key=lambda act: act.burst.first)
    quiet = cover(family, window) < _COVER_TO_CUT
    young = is_young(family, window)
    joined: list[Finding] = []
    for act in acts:
        before = joined[-1] if joined else None
        if before is not None:
            gap = before.burst.gap(act.burst)
            two = len(acts) <= _FEW_CLUMPS and _are_two(before.burst, act.burst)
            if not two and gap <= _reach(before.burst, act.burst, quiet=quiet, young=young):
                if joined[-1].times == 1:
                    before.burst = before.burst.copy()
                before.burst.absorb(act.burst)
                before.times += 1
                before.note = before.note or act.note
                continue
        joined.append(act)
    for act in joined:
        act.times = 1
    return joined


def _reach(before: Burst, after: Burst, *, quiet: bool, young: bool) -> int:
    if before.entries > _FEW_CLUMPS and before.millis <= before.entries * 5 and after.millis <= after.entries * 5:
        return JOIN_MILLIS
    if not quiet:
        return JOIN_MILLIS
    if young:
        return _YOUNG_JOIN_MILLIS
    mean = before.millis // max(before.entries, 1)
    return min(max(_QUIET_JOIN_MILLIS, 8 * mean), _LONGEST_JOIN_MILLIS)


def _take_beginning(act: Finding, acts: list[Finding], clumps: Sequence[Burst], family: Family) -> None:
    """Add what was written shortly before an act, if others hardly write so much at a time.

    The server may have paused within the first documents of a statement.
    """
    for clump in reversed(clumps):
        if clump.first >= act.burst.first or _may_be_others(clump.documents, family):
            continue
        if clump.gap(act.burst) > _PAUSE_MILLIS or any(clump.overlaps(other.burst) for other in acts):
            return
        act.burst = act.burst.copy()
        act.burst.absorb(clump)


def _may_be_others(documents: int, family: Family) -> bool:
    """Whether other clients write so many at a time so often that it may stand before an act by chance."""
    found = family.clump_sizes.at_least(documents) - 2  # without the act, and what is asked about
    return found * _PAUSE_MILLIS > _CHANCE * 60_000 * max(family.active_minutes, 1)


def _cut(act: Finding, family: Family) -> None:
    """Leave out isolated entries at the older end, if other clients write so many at a time: then they are theirs."""
    burst = act.burst
    edge = burst.edge
    if len(edge) < 2 or burst.entries <= len(edge) // 2:
        return
    apart = max(CLUMP_MILLIS, 20 * burst.millis / max(burst.entries, 1))
    cut = 0
    for number in range(1, len(edge)):
        if edge[number][1] - edge[number - 1][1] >= apart:
            if not _may_be_others(number - cut, family):
                break
            cut = number
    if cut and cut < burst.entries:
        burst = burst.copy()
        burst.first, burst.first_wall = edge[cut]
        burst.documents -= cut
        burst.entries -= cut
        burst.edge = edge[cut:]
        act.burst = burst


def _is_slow(burst: Burst, clumps: Sequence[Burst]) -> bool:
    """Whether it consists of single documents with pauses: a loop, not one statement."""
    if burst.documents < LEAST_RUN or burst.millis < 100 * burst.entries:
        return False
    inside = sum(one.documents for one in clumps if burst.first <= one.first and one.last <= burst.last)
    return inside * 2 < burst.documents
