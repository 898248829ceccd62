"""The last drill as metrics: names, labels and values, without a format. docs/drill.md has the table."""

from __future__ import annotations

from collections.abc import Mapping

from tallyglass.counters.metrics import PREFIX, MetricFamily
from tallyglass.moment import parse_time
from tallyglass.restore.drill.report import Report


def families(report: Report, proved: Report | None) -> list[MetricFamily]:
    """All metrics of one drill. ``proved`` is the last drill that succeeded, which may be this one; unknown values are
    left out."""
    where = (report.set_name,)
    found = [
        _family("restore_drill_status", "0 ok, 1 warning, 2 critical, 3 unknown.", where, report.code),
        _family("restore_drill_last_timestamp_seconds", "When the last drill began.", where, _when(report)),
        _family("restore_drill_last_success_timestamp_seconds", "The last that succeeded.", where, _when(proved)),
        _family("restore_drill_rto_seconds", "From the plan to a verified spare.", where, report.rto_seconds),
        _family("restore_drill_point_age_seconds", "Age of the newest point proved.", where, report.point_age),
        _family("restore_drill_backup_age_seconds", "What is lost without the live oplog.", where, report.backup_age),
        _family("restore_drill_operations", "Oplog entries that were replayed.", where, report.operations),
        _family(
            "restore_drill_operations_per_second", "How fast they were replayed.", where, report.operations_per_second
        ),
        _family("restore_drill_documents", "Documents that were verified.", where, report.documents),
        _family(
            "restore_drill_namespaces", "Collections and views verified.", where, len(report.namespaces) or None
        ),
        _family("restore_drill_random", "Drills at random points that could be run.", where, report.random_drills),
        _family(
            "restore_drill_random_identical", "Those that gave what was computed.", where, report.random_identical
        ),
        _by_phase(report.seconds, where),
    ]  # fmt: skip
    return [one for one in found if one.rows]


def _when(report: Report | None) -> float | None:
    return parse_time(report.made).timestamp() if report else None


def _family(name: str, help: str, where: tuple[str, ...], value: float | None) -> MetricFamily:
    rows = () if value is None else ((where, float(value)),)
    return MetricFamily(PREFIX + name, help, ("set",), rows)


def _by_phase(seconds: Mapping[str, float], where: tuple[str, ...]) -> MetricFamily:
    rows = tuple(((*where, phase), value) for phase, value in seconds.items())
    return MetricFamily(f"{PREFIX}restore_drill_phase_seconds", "Duration of each phase.", ("set", "phase"), rows)
