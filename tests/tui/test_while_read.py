"""Commands that print until Ctrl-C, into a pipe: each line at once, and no longer than somebody reads."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator

import bson
import pytest
from bson import Timestamp
from click.testing import CliRunner

from tallyglass.moment import Ts
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.export import ExportItem
from tallyglass.oplog.read.merge import MergedItem, ShardEntry
from tallyglass.oplog.read.stream import Gap
from tallyglass_tui.cli.main import main
from tallyglass_tui.cli.oplog_lines import RELAXED, TEXT, Printer
from tallyglass_tui.cli.while_read import while_read

# What a program still holds back when it ends so is lost.
PRINTS_AND_DIES = """
import os
import re
from tallyglass_tui.cli.headless import print_text
print_text("an incident")
os._exit(0)
"""


def test_a_line_is_in_the_pipe_before_the_next_one() -> None:
    words = [sys.executable, "-c", PRINTS_AND_DIES]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "an incident\n"


async def test_what_prints_nothing_ends_when_its_reader_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        with pytest.raises(BrokenPipeError):
            await while_read(asyncio.Event().wait())


async def test_a_limit_counts_entries_and_not_what_interrupts_them(capsys: pytest.CaptureFixture[str]) -> None:
    raws = tuple(bson.encode({"ts": Timestamp(5, n), "t": 1, "op": "i", "ns": "d.a", "o": {"_id": n}}) for n in (1, 2))

    async def items() -> AsyncIterator[ExportItem]:
        yield Gap(Ts(1, 1), Ts(4, 1))
        yield raws

    await Printer(OplogFilter(), RELAXED, 1).print_all(items())
    assert [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()] == ["gap", "entry"]


@pytest.mark.parametrize("style", [RELAXED, TEXT])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("requested", [True, False])
async def test_what_is_missing_before_the_first_entry_is_no_line_of_text_and_said_once(
    requested: bool, told: bool, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def items() -> AsyncIterator[ExportItem]:
        yield Gap(Ts(1, 1), Ts(61, 1), requested=requested)

    printer = Printer(OplogFilter(), style, 0)
    printer.begin_late = {""} if told else ()
    await printer.print_all(items())
    out, err = capsys.readouterr()
    what = "the oplog begins 1 min after the requested time"
    if not requested:
        what = "gap: the oplog has rolled past 1:1; up to 1 min are missing before 61:1"
    assert err == ("" if requested and told else f"tallyglass: warning: {what}.\n")
    assert (what in out) == (style == RELAXED or not requested)


@pytest.mark.parametrize("style", [RELAXED, TEXT])
@pytest.mark.parametrize(("newest", "expected"), [(True, ["3", "4"]), (False, ["1", "2"])])
async def test_the_newest_entries_of_several_shards_are_the_newest_of_all(
    newest: bool, expected: list[str], style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def entries(*seconds: int) -> MergedItem:
        return tuple(
            ShardEntry("s0", Ts(n, 1), bson.encode({"ts": Timestamp(n, 1), "op": "i", "ns": "d.a", "o": {"_id": n}}))
            for n in seconds
        )

    async def items() -> AsyncIterator[MergedItem]:
        yield entries(1)
        yield entries(2, 3)
        yield entries(4)

    await Printer(OplogFilter(), style, 2, newest=newest).print_all(items())
    assert re.findall(r'(?:"t": |a  _id: |\s)(\d)(?:,|$)', capsys.readouterr().out, re.M) == expected


@pytest.mark.parametrize("words", [["watch"], ["export", "--listen=127.0.0.1:0"]])
def test_what_never_had_an_answer_does_not_end_as_if_all_were_well(words: list[str]) -> None:
    done = CliRunner().invoke(main, [*words, "mongodb://127.0.0.1:1/", "--seconds=0.5"])
    assert done.exit_code == 3, done.output
