"""What the tail shows: the entries that a filter lets through as they arrive, or past ones in their place."""

from __future__ import annotations

from collections.abc import Sequence

from tallyglass.deployment.cluster import Kind
from tallyglass.moment import FORMS, Ts, check_within, parse_since
from tallyglass.oplog.filter.compile import CompiledFilter
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.snapshot import OplogRow, OplogUpdate, RowKind
from tallyglass.text import clean
from tallyglass_tui import bound, clock
from tallyglass_tui import format as fmt
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog.state import state_lines
from tallyglass_tui.oplog.views import OplogViews
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.widgets.line_view import Piece

TIME_PROMPT = f"Go to: {FORMS}"
_SILENCE_SECONDS = 45.0
"""How long the feed may be silent: a tail says at least every few seconds how far it is."""


class Following:
    """Follows the oplog into the tail. ``last`` is the newest update, None before the first."""

    def __init__(self, page: OplogViews) -> None:
        self._page = page
        self.wanted = OplogFilter()
        self.wanted_text = ""
        self.past = ""
        """Which past entries are shown; empty for the live ones."""
        self.last: OplogUpdate | None = None
        self._feed: Feed[OplogUpdate] | None = None

    def start(self) -> None:
        """Follow with the present filter, from an empty tail."""
        wanted, place = self.wanted, oplog_reads.Place()
        self.past, self.last = "", None
        self._page.tail.restart((self._no_oplog or "Reading the oplog ...",))
        self._feed = self._page.shell.feeds.follow(
            "oplog", lambda gateway: oplog_reads.follow(gateway, wanted, place), merge=oplog_reads.merge,
            silence=_SILENCE_SECONDS, subject=self.wanted_text,
        )  # fmt: skip
        self._page.subscribe(self._feed, self.show_update)
        self._page.show_lines()

    def show_update(self, update: OplogUpdate) -> None:
        """Show an update of the feed, unless past entries are shown."""
        went_back, self.last = self._went_back(update), update
        if self.past:
            return
        tail = self._page.tail
        if went_back:
            tail.restart()
        tail.add(update.rows, update.dropped, update.majority)
        if not tail.count:
            tail.say((self._waiting_line,))

    def _went_back(self, update: OplogUpdate) -> bool:
        """Whether a replay went back since the last update: then this one has rows again that are in the tail. On a
        live screen an earlier time only means that the clock of this machine was set."""
        if self.last is None or not self._page.shell.context.recorded:
            return False
        shown, first = (
            next((row.ts for row in rows if row.kind is RowKind.ENTRY), None)
            for rows in (reversed(self._page.tail.ring.rows), update.rows)
        )
        return update.at < self.last.at or (shown is not None and first is not None and first <= shown)

    def set_filter(self, text: str) -> None:
        """Set the filter of the next :meth:`start`. Raises InputError if it is not a valid one."""
        self.wanted = OplogFilter.parse(text, clock.now())
        self.wanted_text = text

    def preview(self, text: str) -> None:
        """Preview a filter on the loaded rows."""
        wanted = OplogFilter.parse(text, clock.now())
        self._page.tail.preview(CompiledFilter(wanted) if text.strip() != self.wanted_text else None)

    def time(self, text: str) -> Ts:
        """The typed time. Raises InputError if it is none, or outside of the oplog."""
        at = parse_since(text, clock.now())
        window = self.last.window if self.last else None
        if window and window.first and window.last:
            check_within(at, window.first, max(window.last, Ts(int(clock.now().timestamp()), 0)))
        return at

    def show_past(self, rows: Sequence[OplogRow]) -> None:
        """Show past entries in place of the live ones, until :meth:`start`."""
        self._page.tail.replace(rows)
        shown = fmt.plural(self._page.tail.count, "entry", "entries")
        self.past = f"the past from {fmt.moment(rows[0].ts.time)}, {shown}"

    def explain_empty(self) -> None:
        """Show in an empty tail why the feed fails."""
        if not self._page.tail.count and self._feed and self._feed.trouble:
            self._page.tail.say((self._feed.trouble.line,))

    @property
    def majority(self) -> Ts | None:
        """The newest timestamp that a majority of the set has, where known."""
        return self.last.majority if self.last else None

    @property
    def data_age(self) -> float | None:
        """Seconds since the tailed member last answered."""
        silent = self._feed.silent_seconds if self._feed else None
        return silent if silent is None or self.last is None else silent + self.last.answered_seconds

    def lines(self, width: int, *, silent: bool) -> list[list[Piece]]:
        """The lines above the tail. ``silent``: the server does not answer."""
        if self._no_oplog:
            return [[(" no oplog here: nothing to follow", "text--muted")]]
        trouble = self._feed.trouble if self._feed else None
        if self.last is None and trouble and not trouble.lost:
            return [[(" the oplog cannot be read: nothing to follow", "text--muted")]]
        shell, tail = self._page.shell, self._page.tail
        held = "paused" * shell.is_paused
        status = self.past or (held if tail.following else f"stopped, +{tail.ring.new:,} new")
        preference = clean(shell.context.target.options.get("readpreference", ""), 30)
        wanted = clean(self.wanted_text, 600)
        live = not self.past
        return state_lines(
            self.last, status, wanted, tail.ring.lost, width, live=live, silent=silent, preference=preference
        )

    @property
    def _waiting_line(self) -> str:
        if self.wanted_text:
            shown, back = clean(self.wanted_text, 60), bound.key("page.back", "Esc")
            return f"Nothing that matches '{shown}' yet. It is applied as entries arrive; {back} clears it."
        if self.last and self.last.trouble:
            return "No entry has arrived since this page was opened; what was written meanwhile is unknown."
        goes_back = f"{bound.key('oplog.time', 't')} goes to an earlier time."
        return f"No entry has arrived since this page was opened. {goes_back}"

    @property
    def _no_oplog(self) -> str:
        """Why there is nothing to follow; empty where there is. Through a mongos its shards are followed."""
        deployment = self._page.shell.deployment
        return deployment.no_oplog_because() if deployment and deployment.kind is not Kind.MONGOS else ""
