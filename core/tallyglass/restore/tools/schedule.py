"""Texts that run a command again and again: a systemd service with its timer, or a line for cron."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tallyglass.errors import InputError

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
"""Seconds."""


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """A command that is run by a timer.

    ``name`` is that of the units, ``needs`` what its user must be able to read, ``fails`` how cron's mail names a
    failure. ``when`` are the lines of the timer, ``minutes`` the five fields of cron. ``service`` are further lines of
    the service. ``every`` is the interval in seconds, where there is one.
    """

    name: str
    title: str
    needs: str
    fails: str
    when: str
    minutes: str
    service: str = ""
    every: float = 0.0


DRILL = TimedCommand(
    "tallyglass-drill",
    "Rehearse the restore of a MongoDB backup on a server of its own",
    "the backup, the password file and the source",
    "the restore drill",
    "OnCalendar=Sun 03:30\nRandomizedDelaySec=30min\nPersistent=true",
    "30 3 * * 0",
    "# 1 is a warning: look at the report, the backup was restored.\nSuccessExitStatus=1\n",
)


def save_oplog(every: float) -> TimedCommand:
    """The job that saves a slice of the oplog every so many seconds."""
    return TimedCommand(
        "tallyglass-save-oplog",
        "Save the oplog of a MongoDB replica set in slices",
        "the password file and the source, and to write the folder of slices",
        "saving the oplog",
        f"OnBootSec=1min\nOnUnitActiveSec={every:g}s\nAccuracySec=1s",
        _minutes(every),
        every=every,
    )


def _minutes(every: float) -> str:
    """The fields of cron; empty for what it cannot express."""
    if every % _MINUTE == 0 and _HOUR % every == 0:
        return f"*/{every / _MINUTE:g} * * * *" if every < _HOUR else "0 * * * *"
    if every % _HOUR == 0 and _DAY % every == 0:
        return f"0 */{every / _HOUR:g} * * *" if every < _DAY else "0 0 * * *"
    return ""


def systemd(job: TimedCommand, words: Sequence[str], path: str) -> str:
    """A service and a timer, as two files. ``words`` are the command, ``path`` the PATH that it needs, if any."""
    command = " ".join(_systemd_word(word) for word in words)
    environment = f"Environment={_systemd_word(f'PATH={path}')}\n" if path else ""
    return f"""# /etc/systemd/system/{job.name}.service
[Unit]
Description={job.title}
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
# The user needs to read {job.needs}; nothing runs as root.
User=tallyglass
{environment}ExecStart={command}
{job.service}Nice=10
IOSchedulingClass=idle

# /etc/systemd/system/{job.name}.timer
[Unit]
Description={job.title}

[Timer]
{job.when}

[Install]
WantedBy=timers.target

# Then: systemctl daemon-reload && systemctl enable --now {job.name}.timer
"""


def cron(job: TimedCommand, words: Sequence[str], path: str) -> str:
    """A crontab: where the command fails, its line of output comes by mail. Raises InputError for an interval that cron
    does not know."""
    if not job.minutes:
        every = f"{job.every:g} s" if job.every % _MINUTE else f"{job.every / _MINUTE:g} min"
        raise InputError(
            f"cron cannot run it every {every}.", "Use a divisor of an hour or of a day, or --emit systemd."
        )
    command = shlex.join(words).replace("%", r"\%")
    place = f"PATH={path}\n" if path else ""
    return f"""# crontab -e, as a user that can read {job.needs}
{place}{job.minutes}  {command} || echo "tallyglass: {job.fails} ended with $?"
"""


def _systemd_word(word: str) -> str:
    """One word as systemd reads it: in double quotes, with its own two signs doubled."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{quoted}"'
