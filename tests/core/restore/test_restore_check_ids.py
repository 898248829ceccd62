"""The page on restores names every check of a plan and of its proof, and every word that stops the script."""

from __future__ import annotations

import re
from pathlib import Path

from tallyglass.restore.checks import window

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "core" / "tallyglass" / "restore"


def test_the_page_names_every_check() -> None:
    source = "".join(file.read_text() for file in SOURCES.rglob("*.py"))
    written = set(re.findall(r'(?:\b(?:ok|warn|block|Check|_blocked))\(\s*"([a-z-]+)"', source))
    assert len(written) > 50, "the pattern still finds them"
    known = written | set(window.BLOCKING) | {name for name, _ in window.WORDS.values()}
    shell = "".join((SOURCES / "plan" / name).read_text() for name in ("folder.py", "self_extracting.py"))
    stops = set(re.findall(r"(?:\bstop \"|STOPPED: )(\[[a-z-]+\])", shell))
    stops |= {f"[{name}]" for name in re.findall(r'(?:\bRunStopped|_failed)\(\s*"([a-z-]+)"', source)}
    assert len(stops) > 10
    page = "".join(path.read_text() for path in (ROOT / "docs").glob("restore*.md"))
    assert sorted(word for word in known | stops if f"`{word}`" not in page) == []
