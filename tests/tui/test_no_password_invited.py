"""No text that a user may copy from here has a place for a password on a command line, where ps and history keep it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallyglass_tui.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [
    path
    for path in [
        *ROOT.glob("*.md"),
        *(one for part in ("docs", "examples", "core", "tui") for one in (ROOT / part).rglob("*")),
    ]
    if path.suffix in (".md", ".py", ".sh")
]
HELP = [[], *([word] for word in COMMANDS), *(["restore", word] for word in ("plan", "prepare", "verify"))]
# A profile takes ${NAME} in the place of a password, and *** is what a masked one looks like.
INVITES = re.compile(
    r"mongodb(?:\+srv)?://[^\s/@:{}]*:(?!\$\{|\*\*\*|\d+[/,])[^\s/@]+@"
    r"|--(?:password|sslPEMKeyPassword)\b(?!-file)"
    r"|\bmongo(?:sh|dump|restore|import|export)? [^\n]*-p(?:[ =]|\Z)"
)


def test_no_text_invites_one() -> None:
    assert len(TEXTS) > 200
    found = [(path.name, hit[0]) for path in TEXTS for hit in INVITES.finditer(path.read_text(encoding="utf-8"))]
    assert not found


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_no_help_does(words: list[str]) -> None:
    output = CliRunner().invoke(main, [*words, "--help"]).output
    assert "Usage" in output
    assert not INVITES.search(output)


@pytest.mark.parametrize(
    "text",
    [
        "mongodb://u:secret@h/",
        "mongodb+srv://user:PASSWORD@name/",
        "mongodump --password=x",
        "mongosh --password",
        "mongosh -u admin -p",
        "mongorestore --sslPEMKeyPassword=x",
    ],
)
def test_what_it_would_find(text: str) -> None:
    assert INVITES.search(text)
