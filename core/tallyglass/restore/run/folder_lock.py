"""One run of a folder at a time. The kernel frees the lock when its process ends, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tallyglass.restore.run.stop import RunStopped
from tallyglass.text import clean, shell_quote

LOCK = "lock"


@contextlib.contextmanager
def sole_run(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``. Raises RunStopped if another run holds it, or if a run on another host did not
    let go of it: whether that one still runs cannot be seen from here."""
    path = folder / LOCK
    try:
        file = path.open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunStopped("folder", f"{clean(str(folder))} cannot be written to: {error.strerror}.") from None
    with file:
        file.seek(0)
        holder, _, host = file.read().strip().partition(" ")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            title = f"Another run of this restore is in progress (process {clean(holder, 20) or 'not known yet'})."
            raise RunStopped("locked", title, "Wait for it, or stop it.") from None
        here = os.uname().nodename
        if host and host != here:
            title = f"A run on {clean(host, 80)} (process {clean(holder, 20)}) uses {clean(str(folder))}."
            raise RunStopped("locked", title, f"If that run has ended: rm {shell_quote(str(path))}")
        file.truncate(0)
        file.write(f"{os.getpid()} {here}\n")
        file.flush()
        try:
            yield
        finally:
            # Emptied and not removed: another run may wait at this very file.
            file.truncate(0)
