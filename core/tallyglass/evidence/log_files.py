"""Log files of mongod: the current one, rotated ones and compressed ones, read as one."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tallyglass.errors import InputError, TallyglassError
from tallyglass.evidence.audit import AuditReader, is_audit_line
from tallyglass.evidence.book import Book
from tallyglass.evidence.log_lines import LogReader, lines_in_memory, parse_line
from tallyglass.mongo.gateway import Gateway
from tallyglass.text import clean

LINE_LIMIT = 1_000_000
"""The longest line that is read, in bytes; a longer one counts as cut."""

FOUND_BYTES = 64_000_000
"""How much of the end of a log that was not named, but found beside the server, is read: about three seconds."""

_BEGUN = re.compile(r"_\d{10}\Z")
"""When a file of a folder of evidence was begun."""

_GZIP = b"\x1f\x8b"
_SAME_LINES = 50  # newest lines of the server, one of which its file must have: more than are written between two reads


def files_of(path: Path) -> list[Path]:
    """The files that a path names: a file with those beside it that logrotate or ``logRotate`` made of it
    (``mongod.log.1.gz``, ``mongod.log-20261123``, ``mongod.log.2026-11-23T04-53-15``), or all logs of a folder. Raises
    InputError."""
    try:
        if path.is_dir():
            found = [one for one in path.iterdir() if ".log" in one.name or "audit" in one.name.lower()]
        else:
            rotated = (f"{path.name}.", f"{path.name}-")
            found = [one for one in path.parent.iterdir() if one == path or one.name.startswith(rotated)]
        found = [one for one in found if one.is_file()]
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be read: {error.strerror}.", "Name a log file.") from None
    if not found:
        raise InputError(f"There is no log at {clean(str(path))}.", "Name a log file of mongod, or its folder.")
    if all(_first_time(one) == (0, False) for one in found):
        raise InputError(
            f"{clean(str(path))} has no line of a log of mongod 4.4 or later.",
            "Name a log file of mongod, its folder, or an audit log in JSON.",
        )
    return found


def read_files(
    book: Book,
    paths: Sequence[Path],
    wanted: Callable[[str, int, int], bool] | None = None,
    *,
    most: int = 0,
    others: Sequence[Path] = (),
) -> dict[str, str]:
    """Read log files and audit logs, ``most`` bytes of the end of each unless that is 0. Those of one server, which
    differ only in what follows ``.log`` in their names, are read as one, the oldest first. ``others`` of the paths are
    of other servers, whose statements did not write what is looked at.

    Returns the last whole line that each server wrote, by which a later source can go on, with the name by which the
    book knows its connections. Raises InputError for a file that cannot be read.
    """
    servers: dict[tuple[Path, str], list[tuple[int, str, Path]]] = {}
    for path in paths:
        at, audits = _first_time(path)
        if audits:
            AuditReader(book).feed(_lines(path, most))
        else:
            servers.setdefault(_server_of(path), []).append((at, path.name, path))
    foreign, lasts = {_server_of(path) for path in others}, dict[str, str]()
    for server, files in servers.items():
        name, last = f"files {server}", ""
        reader = LogReader(book, name, wanted, statements=server not in foreign)
        for _, _, path in sorted(files):
            for text in _lines(path, most):
                reader.feed((text,))
                last = text if _is_whole(text) else last
        reader.flush()
        if last:
            lasts[last] = name
    return lasts


def _is_whole(text: str) -> bool:
    """Whether a server wrote this line, to its end: the one that it is just writing is not in its memory so, nor is a
    line that was made of an open connection."""
    return text.startswith("{") and text.endswith("}") and '"msg":' in text


def _server_of(path: Path) -> tuple[Path, str]:
    return path.parent, _BEGUN.sub("", path.name.partition(".log")[0])


async def foreign_files(gateway: Gateway, paths: Sequence[Path]) -> list[Path]:
    """The files that are not known to be of a member of this set: they share no line with the memory of any."""
    lines: set[str] = set()
    for member in gateway.members() or ("",):
        with suppress(TallyglassError):
            lines.update(lines_in_memory(await gateway.command("getLog", "global", member=member)))
    own = {_server_of(path) for path in paths if _ends_with_any(path, lines)}
    return [path for path in paths if _server_of(path) not in own]


async def log_beside(gateway: Gateway) -> Path | None:
    """The log file of the server, if it is on this machine and may be read; None otherwise.

    A file of that name may be of another server: it is believed only if it ends with lines that this server has too.
    """
    try:
        options = await gateway.command("getCmdLineOpts")
        lines = lines_in_memory(await gateway.command("getLog", "global"))
    except TallyglassError:
        return None
    parsed = options.get("parsed", {})
    name = parsed.get("systemLog", {}).get("path") if isinstance(parsed, dict) else None
    if not isinstance(name, str) or not lines:
        return None
    path = Path(name)
    return path if _ends_with_any(path, set(lines[-_SAME_LINES:])) else None


def _ends_with_any(path: Path, lines: set[str]) -> bool:
    try:
        if not path.is_file():  # a server may log to a device or a pipe, which is never read to its end
            return False
        with open(path, "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - LINE_LIMIT, 0))
            return not lines.isdisjoint(file.read(LINE_LIMIT).decode("utf-8", "replace").split("\n"))
    except (OSError, ValueError):
        return False


def _first_time(path: Path) -> tuple[int, bool]:
    """When a file begins, in milliseconds, 0 without a readable line, and whether it is an audit log."""
    for _, text in zip(range(100), _lines(path), strict=False):
        line = parse_line(text)
        if line is not None:
            return line.at, False
        if is_audit_line(text):
            return 0, True
    return 0, False


def _lines(path: Path, most: int = 0) -> Iterator[str]:
    try:
        with open(path, "rb") as plain:
            packed = plain.read(len(_GZIP)) == _GZIP
            skipped = max(plain.seek(0, os.SEEK_END) - most, 0) if most else 0
        with gzip.open(path) if packed else open(path, "rb") as file:
            if skipped and not packed:
                file.seek(skipped)
                file.readline()
            yield from _bounded(iter(lambda: file.readline(LINE_LIMIT), b""))
    except (OSError, EOFError, zlib.error) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is damaged"
        raise InputError(f"{clean(str(path))} cannot be read: {reason}.", "Leave it out, or copy it again.") from None


def _bounded(parts: Iterable[bytes]) -> Iterator[str]:
    """Lines; the rest of one that is too long is left out, so that it is no whole JSON. The last line of a file that is
    still written may be incomplete, and counts as cut."""
    inside = False
    for part in parts:
        if not inside:
            yield part.decode("utf-8", "replace").rstrip("\n")
        inside = not part.endswith(b"\n")
