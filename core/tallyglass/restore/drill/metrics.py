"""The last drill as metrics: names, labels and values, without a format. docs/drill.md has the table."""

from __future__ import annotations

from tallyglass.counters.metrics import PREFIX, MetricFamily, known_families
from tallyglass.moment import parse_time
from tallyglass.restore.drill.report import Report


def families(report: Report, proved: Report | None) -> list[MetricFamily]:
    """All metrics of one drill. ``proved`` is the last drill that succeeded, which may be this one; unknown values are
    left out."""
    values: dict[str, tuple[str, float | None]] = {
        "status": ("0 ok, 1 warning, 2 critical, 3 unknown.", report.code),
        "last_timestamp_seconds": ("When the last drill began.", _when(report)),
        "last_success_timestamp_seconds": ("The last that succeeded.", _when(proved)),
        "rto_seconds": ("From the plan to a verified spare.", report.rto_seconds),
        "point_age_seconds": ("Age of the newest point proved.", report.point_age),
        "backup_age_seconds": ("What is lost without the live oplog.", report.backup_age),
        "operations": ("Oplog entries that were replayed.", report.operations),
        "operations_per_second": ("How fast they were replayed.", report.operations_per_second),
        "documents": ("Documents that were verified.", report.documents),
        "namespaces": ("Collections and views verified.", len(report.namespaces) or None),
        "random": ("Drills at random points that could be run.", report.random_drills),
        "random_identical": ("Those that gave what was computed.", report.random_identical),
    }
    families = known_families("restore_drill", values, {"set": report.set_name})
    phases = tuple(((report.set_name, phase), value) for phase, value in report.seconds.items())
    if phases:
        name = f"{PREFIX}restore_drill_phase_seconds"
        families.append(MetricFamily(name, "Duration of each phase.", ("set", "phase"), phases))
    return families


def _when(report: Report | None) -> float | None:
    return parse_time(report.made).timestamp() if report else None
