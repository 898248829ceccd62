"""The lines of ``tallyglass repair``."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from pathlib import Path

import click

from builders.counters import counter
from tallyglass.counters.follow.differences import Difference
from tallyglass.counters.standing import Standing
from tallyglass_tui.cli.options import ConnectionOptions
from tallyglass_tui.cli.repair import _again, _lines, command


def test_the_check_after_a_repair_matches_its_counter_alone() -> None:
    repaired = counter(1, id="orders[eu]*?", repair="db.counters.updateOne()")
    *_, then = _lines(Difference(repaired, Standing.BEHIND, "", 1, 9, 1, 9, 0, 0, ()), "tallyglass repair")
    pattern = shlex.split(then)[shlex.split(then).index("--match") + 1]
    assert fnmatchcase("shop.counters orders[eu]*?", pattern)
    assert not fnmatchcase("shop.counters orders[eu]xy", pattern)


def test_the_check_after_a_repair_asks_the_same_server_without_a_password() -> None:
    given = ConnectionOptions("mongodb://ann:secret@db1/?replicaSet=rs0&tlsCertificateKeyFilePassword=secret")
    with click.Context(command):
        words = shlex.split(_again(given, Path("my counters.toml"), no_history=True))
    assert words[:2] == ["tallyglass", "repair"]
    assert "ann@db1" in words[2]
    assert "secret" not in words[2]
    assert words[3:] == ["--config=my counters.toml", "--no-history"]
