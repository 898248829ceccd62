"""Texts that run the drill every week: a systemd service with its timer, or a line for cron."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

SYSTEMD, CRON = "systemd", "cron"


def systemd(words: Sequence[str], path: str) -> str:
    """A service and a timer, as two files. ``words`` are the command, ``path`` the PATH that it needs."""
    command = " ".join(_systemd_word(word) for word in words)
    return f"""# /etc/systemd/system/tallyglass-drill.service
[Unit]
Description=Rehearse the restore of a MongoDB backup on a server of its own
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
# The user needs to read the backup, the password file and the source; nothing runs as root.
User=tallyglass
Environment={_systemd_word(f"PATH={path}")}
ExecStart={command}
# 1 is a warning: look at the report, the backup was restored.
SuccessExitStatus=1
Nice=10
IOSchedulingClass=idle

# /etc/systemd/system/tallyglass-drill.timer
[Unit]
Description=Rehearse the restore every week

[Timer]
OnCalendar=Sun 03:30
RandomizedDelaySec=30min
Persistent=true

[Install]
WantedBy=timers.target

# Then: systemctl daemon-reload && systemctl enable --now tallyglass-drill.timer
"""


def cron(words: Sequence[str], path: str) -> str:
    """A crontab: its line of output comes by mail where the drill fails."""
    command = shlex.join(words).replace("%", r"\%")
    return f"""# crontab -e, as a user that can read the backup and the password file
PATH={path}
30 3 * * 0  {command} || echo "tallyglass: the restore drill ended with $?"
"""


def _systemd_word(word: str) -> str:
    """One word as systemd reads it: in double quotes, with its own two signs doubled."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{quoted}"'
