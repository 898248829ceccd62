"""The folder of the slices of one set: which there are, one run at a time, no slice of another set."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from tallyglass.errors import InputError, PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.restore.saved_oplog.slice_file import SliceFile, read_slice
from tallyglass.restore.saved_oplog.slice_names import OWN, span
from tallyglass.text import clean
from tallyglass.whole_file import write_whole

_LOCK = ".lock"
_SET = ".set.json"
"""The set that the slices of a folder are of."""
_CONFIG = Namespace("local", "system.replset")


async def check_set(gateway: Gateway, folder: Path, name: str) -> None:
    """Record the set that the slices are of, or raise InputError where the folder has those of another one. Its id is
    compared where it may be read: two sets may have one name."""
    try:
        config = await gateway.find_one(_CONFIG, {}) or {}
    except PrivilegeError:
        config = {}
    here = {"set": name, "id": str(config.get("settings", {}).get("replicaSetId", ""))}
    note = folder / _SET
    if not note.exists():
        write_whole(note, json.dumps(here) + "\n", 0o600)
        return
    try:
        there = json.loads(note.read_text())
        kept = str(there["set"]), str(there["id"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{clean(str(note))} cannot be read.", "Remove it if all slices there are of this set."
        ) from None
    if kept[0] != here["set"] or (kept[1] and here["id"] and kept[1] != here["id"]):
        raise InputError(
            f"{clean(str(folder))} holds slices of another set, {clean(kept[0])}: nothing was saved.",
            f"Name a folder of its own for {clean(name)}.",
        )


def last_slice(folder: Path) -> SliceFile | None:
    """The newest slice of the folder that holds an entry."""
    for path, _ in sorted(_slices(folder), key=lambda one: one[1], reverse=True):
        found = read_slice(path)
        if found is not None and found.blocks:
            return found
    return None


def remove_old(folder: Path, least: float) -> Iterator[Path]:
    """Remove the slices that end before ``least``, in seconds since 1970."""
    for path, end in sorted(_slices(folder)):
        if end.t < least:
            path.unlink()
            yield path


def _slices(folder: Path) -> list[tuple[Path, Ts]]:
    """The slices that were saved here, and the last entry of each."""
    return [(path, named.end) for path in folder.iterdir() if OWN.match(path.name) and (named := span(path))]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Allow one run at a time: two would save the same entries and remove each other's temporary file."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(folder / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Another run is saving a slice in {clean(str(folder))}.", "Wait for it, or save less often."
            ) from None
        yield


def sync_folder(folder: Path) -> None:
    """Make the names in the folder last through a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
