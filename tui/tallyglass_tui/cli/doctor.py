"""``tallyglass doctor``: what this user may see, what is missing, and the role that would fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallyglass.errors import InputError
from tallyglass.moment import iso
from tallyglass.text import clean, clean_name, plural
from tallyglass_tui import format as fmt
from tallyglass_tui.cli.clocks import clocks_apart
from tallyglass_tui.cli.headless import as_json, ask, print_text, table, timeout_option
from tallyglass_tui.cli.options import ConnectionOptions, connection_options, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tallyglass.doctor import Diagnosis, JobFinding
    from tallyglass.evidence.kept import EvidenceKept
    from tallyglass.restore.pre_images.survey import Survey

_WORDS = {"allowed": "yes", "partly": "partly", "denied": "no"}


@click.command()
@connection_options()
@click.option("--db", "databases", multiple=True, metavar="NAME", help="Check this database of counters; repeatable.")
@click.option("--pre-images", "wants_images", is_flag=True, help="List the collections that keep pre-images.")
@json_option
@timeout_option
def command(
    given: ConnectionOptions, databases: tuple[str, ...], wants_images: bool, wants_json: bool, seconds: float
) -> int:
    """Show what this user may see, and which role would grant the rest.

    Exit 0 when every job can be done in full, 1 when something is missing, such as a database of --db.
    """
    from tallyglass.doctor import diagnose

    if wants_images and databases:
        raise InputError("--db and --pre-images cannot be combined.", "--pre-images lists those of all databases.")
    if wants_images:
        return _pre_images(given, wants_json, seconds)
    if "" in databases:
        raise InputError("--db is empty.", "Name a database, such as shop.")
    found = ask(given, lambda gateway: diagnose(gateway, databases), seconds)
    absent = _not_listed(found, databases)
    if wants_json:
        print_text(as_json(_facts(found, absent), indent=2))
    else:
        print_text("\n".join(_lines(found, absent)))
    return 0 if not absent and all(finding.ok for finding in found.findings) else 1


def _not_listed(found: Diagnosis, databases: Sequence[str]) -> list[str]:
    """Those of the databases to check, safe to show, that the server does not list; empty where it lists none."""
    return [name for name in map(clean_name, databases) if found.databases and name not in found.databases]


_SHOWN = 12  # names in one answer, which still fits on a screen; the rest is counted


def _pre_images(given: ConnectionOptions, wants_json: bool, seconds: float) -> int:
    """Which collections keep pre-images, for how long, what that costs, and how to switch them on."""
    from tallyglass.restore.pre_images.survey import survey

    found = ask(given, survey, seconds)
    if wants_json:
        print_text(as_json(_pre_image_facts(found), indent=2))
    else:
        print_text("\n".join(_pre_image_lines(found)))
    return 0


def _pre_image_facts(found: Survey) -> dict[str, Any]:
    return {
        "keeping": found.keeping,
        "without": found.without,
        "unknown": found.unknown,
        "kept": str(found.kept),
        "oldest": dict(found.oldest),
        "sampled_seconds": found.sampled_seconds,
        "costs": found.costs,
    }


def _pre_image_lines(found: Survey) -> list[str]:
    from tallyglass.restore.pre_images.settings import COST, ROLE, how_to_enable

    rows = [
        ("keep pre-images", _names(found.keeping)),
        ("kept for", str(found.kept) if found.keeping else "-"),
        *(
            ("oldest held", f"{_when(found.oldest[ns])} of {clean(ns, 80)}")
            for ns in found.keeping[:_SHOWN]
            if ns in found.oldest
        ),
        ("keep none", _names(found.without)),
    ]
    if found.unknown:
        rows.append(("unknown", f"{found.unknown} collections, whose options this user may not read"))
    lines = [table(rows)]
    if found.keeping and not found.oldest:
        lines += ["", "This user may not read the images. In mongosh:", f"  {ROLE}"]
    if found.without:
        ns = found.costs[0].ns if found.costs else found.without[0]
        db, _, name = ns.partition(".")
        lines += ["", COST, *_costs(found), "To switch them on, as a user with dbAdmin in mongosh:"]
        lines.append(f"  {how_to_enable(db, name)}")
    return lines


def _when(oldest: datetime | None) -> str:
    return iso(oldest) if oldest else "none"


def _costs(found: Survey) -> list[str]:
    """What the images of each collection would take, those that change most first."""
    if found.sampled_seconds is None:
        return ["How many bytes that would be is not known: the newest entries of the oplog give no rate."]
    lines = [f"At the rate of the last {found.sampled_seconds} s that the newest entries of the oplog cover:"]
    for cost in found.costs[:_SHOWN]:
        size = "of unknown size" if cost.bytes_per_hour is None else f"{cost.bytes_per_hour / 2**20:,.1f} MiB an hour"
        lines.append(f"  {clean(cost.ns, 80)}: {cost.changes_per_hour:,.0f} images, {size}")
    return lines if found.costs else [*lines, "  no updates and no deletes of these collections"]


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(clean(name, 80) for name in names[:_SHOWN]) or "none"
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _lines(found: Diagnosis, absent: Sequence[str] = ()) -> list[str]:
    from tallyglass.doctor import LOG_IN

    rows = [
        ("server", _server(found)),
        ("user", _user(found)),
        ("databases", _databases(found)),
        ("oplog", _window(found)),
    ]
    if found.seconds_ahead is not None and (apart := clocks_apart(found.seconds_ahead)):
        rows.insert(1, ("clock", f"{apart}: times such as now-5m count from the clock here"))
    if found.deployment.sharded or found.deployment.shard_unknown:
        rows.insert(1, ("sharding", _sharding(found)))
    if found.deployment.untested:
        rows.insert(1, ("tested", f"not on this server. {found.deployment.untested}"))
    if found.deployment.alone:
        rows.insert(1, ("reads", str(found.deployment.alone)))
    if found.scope:
        rows.append(("checked for", f"only {', '.join(found.scope)}; --db NAME checks another"))
    if absent:
        rows.append(("not there", f"{_names(absent)}: misspelled, without data yet, or hidden from this user"))
    lines = [table(rows), "", *(line for finding in found.findings for line in _job(finding))]
    for finding in found.findings:
        if finding.commands:
            lines += ["", f"For {finding.verdict.job.title}, run in mongosh as an administrator:"]
            lines += [f"  {command}" for command in finding.commands]
    if found.kept is not None:
        lines += ["", *_kept_lines(found.kept)]
    if found.access_control and not found.user:
        lines += ["", f"Log in to see more. {LOG_IN}"]
    return lines


def _server(found: Diagnosis) -> str:
    it = found.deployment
    members = ", ".join(f"{member.address} {member.state.lower()}".rstrip() for member in it.members)
    return f"{it.title}, {it.server}" + (f": {members}" if members else "")


def _user(found: Diagnosis) -> str:
    if not found.access_control:
        return "none needed: access control is off, and anyone who can connect may do anything"
    if not found.user:
        return "not logged in"
    return f"{found.user}, roles {', '.join(found.roles) or 'none'}"


def _databases(found: Diagnosis) -> str:
    return _names(found.databases) if found.databases else "none that this user may list"


def _window(found: Diagnosis) -> str:
    window = found.window
    if window is None or window.hours is None:
        return "not readable"
    parts = [f"from {window.first} to {window.last}, {window.hours:.1f} h"]
    if window.recent_bytes_per_hour:
        parts.append(f"recently {fmt.size(window.recent_bytes_per_hour)} an hour")
    if window.forecast_hours is not None:
        parts.append(f"at that rate it reaches {window.forecast_hours:,.1f} h back")
    if window.kept_hours:
        parts.append(f"kept for {window.kept_hours:g} h at least")
    return "; ".join(parts)


def _kept_lines(kept: EvidenceKept) -> list[str]:
    """What the server keeps of who writes, and what would keep more, with its cost."""
    from tallyglass.evidence.kept import COSTS, SLOWMS, command_for_more

    span = "unknown: this user may not read the log"
    if kept.memory_seconds is not None:
        span = f"the server's memory of its log covers {kept.memory_seconds / 60:,.1f} minutes now"
    slowms = "unknown" if kept.slowms is None else f"{kept.slowms} ms"
    rate = f", {kept.sample_rate:.0%} of them" if kept.sample_rate not in (None, 1.0) else ""
    lines = [
        f"Who did it: {span}; statements from {slowms} up are logged{rate}.",
        f"  log {clean(kept.log, 200) or 'unknown'}, audit log {clean(kept.audit, 200) or 'none known'}"
        + (", values in the log are hidden" if kept.redacted else ""),
        f"  profiler {_profiles(kept)}",
    ]
    if kept.slowms is None or kept.slowms >= SLOWMS or rate:
        more = command_for_more(kept)
        lines += [f"To keep more until the next restart, as an administrator in mongosh on each member: {more}"]
        lines += [
            f"  slowms {slow:>3}: {count} lines and {size} kB of log for 1,000 writes, {named} of 45 acts named"
            for slow, count, size, named in COSTS
        ]
    return lines


def _profiles(kept: EvidenceKept) -> str:
    words = {0: "off now", 1: "of slow statements", 2: "of all statements", None: "of unknown level"}
    shown = [
        f"{words.get(one.level, 'of unknown level')} in {clean(name, 80)}"
        + (f", whose documents cover {one.seconds / 60:,.1f} minutes" if one.seconds is not None else "")
        for name, one in kept.profiles.items()
    ]
    told = "; ".join(shown[:_SHOWN]) or "in no database that this user may see"
    more = f"; and in {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    left = plural(kept.not_looked_at, "database was", "databases were")
    return told + more + (f"; {left} not looked at" if kept.not_looked_at else "")


def _sharding(found: Diagnosis) -> str:
    it = found.deployment
    if it.shard_unknown:
        return "unknown: this user may not run shardingState"
    if it.shard_name:
        cluster = f" of cluster {it.cluster_id}" if it.cluster_id else ""
        servers = f", config servers {it.config_servers}" if it.config_servers else ""
        return f"shard {it.shard_name}{cluster}{servers}. {it.sharding_advice()}"
    if it.config_server:
        return f"config server of a sharded cluster. {it.sharding_advice()}"
    return "mongos of a sharded cluster"


def _job(finding: JobFinding) -> list[str]:
    """A line for the job, and one for each privilege that it lacks."""
    verdict = finding.verdict
    word = "partly" if finding.instead else "no" if finding.impossible else _WORDS[verdict.state]
    first = f"{verdict.job.id:<10} {word:<7} {finding.impossible or verdict.job.title}"
    if finding.impossible:
        return [first, *([f"{'':<19}{finding.instead}"] if finding.instead else [])]
    lacks = [f"needs {need.label}" for need in verdict.missing]
    lacks += [f"lacks {need.label}: {need.purpose}" for need in verdict.missing_extras]
    return [first, *(f"{'':<19}{clean(lack)}" for lack in lacks)]


def _facts(found: Diagnosis, absent: Sequence[str]) -> dict[str, Any]:
    from tallyglass.oplog.snapshot import OplogWindow

    window = found.window or OplogWindow(None, None)
    return {
        "server": {
            "kind": found.deployment.kind,
            "set": found.deployment.set_name,
            "version": found.deployment.version,
            "product": found.deployment.product,
            "untested": found.deployment.untested or None,
            "reads_alone": found.deployment.alone and found.deployment.alone.address,
        },
        "sharding": {
            "shard": found.deployment.shard_name or None,
            "cluster": found.deployment.cluster_id or None,
            "config_servers": found.deployment.config_servers or None,
            "config_server": found.deployment.config_server,
            "unknown": found.deployment.shard_unknown,
            "advice": found.deployment.sharding_advice() or None,
        },
        "clock_ahead_seconds": found.seconds_ahead if found.seconds_ahead is None else round(found.seconds_ahead, 1),
        "access_control": found.access_control,
        "user": found.user,
        "roles": found.roles,
        "databases": found.databases,
        "judged_for": found.scope,
        "not_there": absent,
        "oplog": {
            "first": window.first,
            "last": window.last,
            "hours": window.hours,
            "recent_bytes_per_hour": window.recent_bytes_per_hour,
            "forecast_hours": window.forecast_hours,
        },
        "evidence": found.kept
        and {
            "memory_seconds": found.kept.memory_seconds,
            "slowms": found.kept.slowms,
            "sample_rate": found.kept.sample_rate,
            "log": clean(found.kept.log, 400) or None,
            "audit": clean(found.kept.audit, 400) or None,
            "redacted": found.kept.redacted,
            "profiles": {clean(name, 80): one for name, one in found.kept.profiles.items()},
        },
        "jobs": [_job_facts(finding) for finding in found.findings],
    }


def _job_facts(finding: JobFinding) -> dict[str, Any]:
    return {
        "id": finding.verdict.job.id,
        "state": "impossible" if finding.impossible else finding.verdict.state,
        "reason": finding.impossible,
        "instead": finding.instead or None,
        "missing": [clean(need.label) for need in finding.verdict.missing],
        "missing_extras": [clean(need.label) for need in finding.verdict.missing_extras],
        "commands": finding.commands,
    }
