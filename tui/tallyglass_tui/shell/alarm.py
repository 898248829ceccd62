"""What became red while the screen was unattended: a counter that is now urgent or whose document is gone, an incident
that removed data. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from tallyglass.counters.check_line import GONE, vanished
from tallyglass.counters.verdict import CRITICAL, Thresholds, grade, is_young, name_of
from tallyglass_tui import format as fmt

if TYPE_CHECKING:
    from tallyglass.counters.snapshot import CountersSnapshot
    from tallyglass.oplog.snapshot import IncidentScan

_LOOKED_AT = 200
"""How many counters are graded; the most urgent come first."""


class AlarmKind(StrEnum):
    """What the terminal does: ring its bell, or show a desktop notification (OSC 9)."""

    OFF = "off"
    BELL = "bell"
    NOTIFY = "notify"


_HISTORY_READ = timedelta(minutes=10)
"""For so long after the first complete reading a counter gets its first date because its history was read."""


class Alarm:
    """Remembers what was red. Only what turns red after the first complete reading is reported, and only once."""

    def __init__(self) -> None:
        self._counters: set[object] | None = None
        self._incidents: set[object] | None = None
        self._since: datetime | None = None
        self._undated: set[object] = set()
        self._seen: tuple[object, object] = (None, None)

    def news(self, snapshot: CountersSnapshot | None, scan: IncidentScan | None) -> str:
        """What is newly red, in one sentence; empty for nothing."""
        if snapshot is self._seen[0] and scan is self._seen[1]:
            return ""
        self._seen = (snapshot, scan)
        found = [*self._new_counters(snapshot), *self._new_incidents(scan)]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{found[0]}{more}" if found else ""

    def _new_counters(self, snapshot: CountersSnapshot | None) -> Iterator[str]:
        if snapshot is None:
            return
        counters, at = snapshot.counters[:_LOOKED_AT], snapshot.at
        red: dict[object, str] = {
            counter.key: f"Urgent: {name_of(counter)}, {fmt.ENDS} {fmt.time_left(counter.forecast, at)}."
            for counter in counters
            if grade(counter, Thresholds(), at)[0] == CRITICAL
        }
        red |= {(one.ns, one.id, one.since): f"{name_of(one)}: {GONE}." for one in vanished(snapshot)}
        before, self._undated = self._undated, {counter.key for counter in counters if is_young(counter, at)}
        if self._counters is None or self._since is None:
            if not snapshot.discovering:
                self._counters, self._since = set(red), at
            return
        known = self._counters | (before if at - self._since <= _HISTORY_READ else set())
        self._counters |= set(red)
        yield from (text for key, text in red.items() if key not in known)

    def _new_incidents(self, scan: IncidentScan | None) -> Iterator[str]:
        if scan is None or not scan.done:
            return
        from tallyglass.oplog.snapshot import Harm

        red = {
            (one.first, one.kind, one.ns): one
            for one in scan.incidents
            if one.harm is Harm.LOSS and not one.routine and one.confidence != "low"
        }
        known, self._incidents = self._incidents, (self._incidents or set()) | set(red)
        if known is not None:
            yield from (f"{one.title} at {fmt.clock(one.first.time)}." for key, one in red.items() if key not in known)
