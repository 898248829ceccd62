"""What a drill proved: a frozen report, its form as JSON and as a page, and how it differs from the last one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tallyglass.errors import InputError
from tallyglass.report.document import Code, Document, Facts, Paragraph, Section, Table
from tallyglass.restore.model.check import Check, Level, warn
from tallyglass.text import clean, whole_duration
from tallyglass.typed_json import Misfit, built

FORMAT = 3
"""Of the JSON document. Format 1 lacks ``rate_limit``, ``nice``, ``load`` and ``output``; format 2 what begins with
``random``, and ``seed``."""

UNKNOWN = "unknown"
"""The level of a drill that could not be run: it says nothing about the backup."""

CODES = {Level.OK.value: 0, Level.WARN.value: 1, Level.BLOCK.value: 2, UNKNOWN: 3}
WORDS = {Level.OK.value: "OK", Level.WARN.value: "WARNING", Level.BLOCK.value: "CRITICAL", UNKNOWN: "UNKNOWN"}

_SHRUNK = 0.5
"""A collection that lost this share of its documents since the last drill is named."""

PHASES = ("plan", "secure", "restore", "verify")
"""The phases of a real restore, until the data can be used."""


@dataclass(frozen=True, slots=True)
class Report:
    """One drill. Times are ISO 8601 in UTC, oplog positions are ``"t:i"``, durations are in seconds; None means
    unknown.

    ``level`` is ok, warn, block or unknown; ``seconds`` holds the duration of each phase that was run; ``namespaces``
    the number of documents of each verified collection, None if it cannot be computed. ``backup_age`` is the time from
    the backup's end to now: what would be lost without the live oplog. ``point_age`` is the time from the proven point
    to the making of the plan. With a ``rate_limit``, in bytes a second, ``rto_seconds`` is longer than a real restore
    would take; so it is on a busy machine with a low priority (``nice``; ``load`` is the number of processes for each
    CPU). ``differences`` compares with the last drill that succeeded. ``output`` is the end of what a failed step
    printed. Of a drill at a random point, ``seed`` and ``random_where`` say how it was drawn; ``random_drills`` is the
    number of such drills of the deployment so far that could be run, ``random_identical`` of those among them that gave
    what was computed, and ``random_since`` the time of the first.
    """

    made: str
    level: str
    set_name: str
    deployment: str
    backup: str
    title: str
    id: str = ""
    form: str = ""
    host: str = ""
    server_version: str = ""
    backup_start: str = ""
    backup_end: str = ""
    backup_bytes: int = 0
    point: str = ""
    point_time: str = ""
    point_age: float | None = None
    backup_age: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    rto_seconds: float | None = None
    rate_limit: float | None = None
    nice: int = 0
    load: float | None = None
    operations: int | None = None
    operations_per_second: float | None = None
    documents: int | None = None
    namespaces: Mapping[str, int | None] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Check, ...] = ()
    differences: tuple[Check, ...] = ()
    output: tuple[str, ...] = ()
    previous: str = ""
    seed: int | None = None
    random_where: str = ""
    random_drills: int | None = None
    random_identical: int | None = None
    random_since: str = ""
    checksum: str = ""
    format: int = FORMAT

    @property
    def code(self) -> int:
        """The exit code of the drill."""
        return CODES[self.level]

    @property
    def random_summary(self) -> str:
        """How many drills at random points gave what was computed, this one among them; empty for another drill."""
        if not self.random_drills:
            return ""
        drills = f"{self.random_identical} of {self.random_drills} drills at random points"
        return f"{drills} were identical to what was computed, since {self.random_since}."

    @property
    def line(self) -> str:
        """One line for monitoring, with performance data if there are figures."""
        figures = {
            "rto": (self.rto_seconds, "s"),
            "point_age": (self.point_age, "s"),
            "backup_age": (self.backup_age, "s"),
            "operations": (self.operations, ""),
            "documents": (self.documents, ""),
        }
        perfdata = [f"{name}={value:.10g}{unit}" for name, (value, unit) in figures.items() if value is not None]
        name = f"[{self.id}] " if self.id else ""
        text = clean(f"{name}{self.title} {self.random_summary}".rstrip(), 600).replace("|", "/")
        return f"DRILL {WORDS[self.level]} - {text}" + (f" | {' '.join(perfdata)}" if perfdata else "")


def sealed(report: Report) -> Report:
    """Return the report with its checksum: SHA-256 over the JSON without the field ``checksum``, keys sorted."""
    return replace(report, checksum=_checksum(asdict(report)))


def _checksum(content: Mapping[str, Any]) -> str:
    counted = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(counted, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def to_json(report: Report) -> str:
    """One JSON document in ASCII."""
    return json.dumps(asdict(report), ensure_ascii=True, indent=2)


def from_json(text: str) -> Report:
    """The report that :func:`to_json` of this version or an earlier one wrote; what an earlier one did not record has
    its default. Raises InputError for a later format, for anything else, and if the checksum is wrong."""
    try:
        content: dict[str, Any] = json.loads(text)
        whole = content["checksum"] == _checksum(content)
        if whole and content["format"] > FORMAT:
            raise InputError(
                f"That report of a drill has format {content['format']}; this version reads {FORMAT}.",
                "Read it with the version of tallyglass that wrote it.",
            )
        lists = {name: built(tuple[Check, ...], content[name], name) for name in ("findings", "differences")}
        report = Report(**(content | lists | {"output": tuple(content.get("output", ()))}))
        right = whole and report.level in CODES
    except (Misfit, ValueError, TypeError, KeyError, AttributeError):
        right = False
    if not right:
        raise InputError("That file is not a whole report of a drill.")
    return report


def compare(before: Report | None, namespaces: Mapping[str, int | None]) -> tuple[Check, ...]:
    """Collections that were verified last time and are now missing or have lost half of their documents: a backup that
    restores may still be incomplete."""
    if before is None:
        return ()
    found = []
    for ns, held in sorted(before.namespaces.items()):
        shown = clean(ns)
        if ns not in namespaces:
            title = f"{shown} was in the last drill and is not in this one."
            advice = "If it was not dropped on purpose, the backup may leave it out."
            found.append(warn("collection-gone", title, advice))
            continue
        now = namespaces[ns]
        if held and now is not None and now <= held * _SHRUNK:
            title = f"{shown} holds {now} documents; in the last drill it held {held}."
            advice = "If they were not deleted on purpose, look at the backup."
            found.append(warn("documents-halved", title, advice))
    return tuple(found)


def document_of(report: Report) -> Document:
    """The report as a page to pass on."""
    return Document(
        f"Restore drill of {clean(report.set_name) or 'a deployment'}: {WORDS[report.level]}",
        [Paragraph(clean(report.title, 600), strong=True), Facts(_facts(report))],
        [section for section in _sections(report) if section],
        f"Checksum of the JSON report (SHA-256): {report.checksum}",
    )


def _sections(report: Report) -> Iterator[Section | None]:
    if report.seconds:
        seconds = [(name, f"{value:.1f}") for name, value in report.seconds.items()]
        yield Section("Duration", [Table(("phase", "seconds"), seconds, frozenset({1}))])
    yield _found("Differences from the last drill", report.differences)
    yield _found("Checks", report.findings)
    if report.output:
        yield Section("What the failed step printed last", [Code([clean(line, 300) for line in report.output])])
    if report.namespaces:
        counts = [
            (clean(ns), "not counted" if held is None else f"{held:,}")
            for ns, held in sorted(report.namespaces.items())
        ]
        title = "Verified collections and views"
        yield Section(title, [Table(("namespace", "documents"), counts, frozenset({1}))])


def _found(title: str, findings: Sequence[Check]) -> Section | None:
    rows = [(one.level, one.id, clean(f"{one.title} {one.advice}".rstrip(), 600)) for one in findings]
    return Section(title, [Table(("", "check", "result"), rows)]) if rows else None


def _facts(report: Report) -> list[tuple[str, str]]:
    rate, rto = report.operations_per_second, report.rto_seconds
    facts = [
        ("made", report.made),
        ("on", report.host),
        ("set", f"{report.set_name}, MongoDB {report.server_version}" if report.server_version else report.set_name),
        ("backup", f"{report.backup} ({report.form}, {report.backup_bytes:,} bytes)" if report.form else report.backup),
        ("backup begun, ended", f"{report.backup_start}, {report.backup_end or 'unknown'}" * bool(report.form)),
        ("proved up to just before", f"{report.point} ({report.point_time})" if report.point else ""),
        ("drawn at random", _drawn(report)),
        ("age of that point", _age(report.point_age)),
        ("lost without the live oplog", _age(report.backup_age)),
        ("time to restore (measured)", _seconds(rto)),
        ("priority, load", _conditions(report)),
        ("rate limit", "" if report.rate_limit is None else f"{report.rate_limit:,.0f} bytes a second"),
        ("operations replayed", "" if report.operations is None else f"{report.operations:,}"),
        ("operations a second", "" if rate is None else f"{rate:,.0f}"),
        ("documents verified", "" if report.documents is None else f"{report.documents:,}"),
        ("tools", ", ".join(f"{name} {version}" for name, version in report.tools.items())),
        ("last drill", report.previous),
    ]
    return [(name, clean(value, 500)) for name, value in facts]


def _drawn(report: Report) -> str:
    return "" if report.seed is None else f"{report.random_where}, seed {report.seed}. {report.random_summary}".rstrip()


def _conditions(report: Report) -> str:
    """What a measured time depends on."""
    load = "" if report.load is None else f"{report.load:.1f} processes for each CPU"
    return f"nice {report.nice}, {load}" if load else ""


def _age(seconds: float | None) -> str:
    return "" if seconds is None else whole_duration(round(seconds))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} s"
