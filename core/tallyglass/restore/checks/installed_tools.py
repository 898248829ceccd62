"""Checks of the programs of a restore that are installed on this machine."""

from __future__ import annotations

from tallyglass.restore.model.check import Checks, block, ok, warn
from tallyglass.restore.tools.toolset import Tools, how_to_get


def installed_tools(tools: Tools | None, needed: tuple[int, int]) -> Checks:
    """All are here, of one version, and new enough; ``tools`` is None where nobody looked, ``needed`` the oldest."""
    word = _version(needed)
    if tools is not None and tools.missing:
        verb = "is" if len(tools.missing) == 1 else "are"
        title = f"{', '.join(tools.missing)} {verb} not installed here."
        yield warn("tool-missing", title, how_to_get(tools.missing, word))
    if tools is None or tools.oldest is None:
        yield ok("tool-version", f"mongodump and mongorestore {word} or newer are needed; the run checks.")
    elif tools.oldest[:2] < needed:
        have = ", ".join(f"{name} {_version(version)}" for name, version in tools.versions.items())
        yield block("tool-version", f"The tools here are too old: {have}.", f"Install {word} or newer.")
    elif tools.differ:
        yield warn("tool-mixed", "The tools here are of different versions.", "Install them as one package.")
    else:
        yield ok("tool-version", f"The tools here are {_version(tools.oldest)}; {word} is needed.")


def _version(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
