"""Commands that print until Ctrl-C, into a pipe: each line at once, and no longer than somebody reads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tallyglass_tui.cli.main import main
from tallyglass_tui.cli.while_read import while_read

# What a program still holds back when it ends so is lost.
PRINTS_AND_DIES = """
import os
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


@pytest.mark.parametrize("words", [["watch"], ["export", "--listen=127.0.0.1:0"]])
def test_what_never_had_an_answer_does_not_end_as_if_all_were_well(words: list[str]) -> None:
    done = CliRunner().invoke(main, [*words, "mongodb://127.0.0.1:1/", "--seconds=0.5"])
    assert done.exit_code == 3, done.output
