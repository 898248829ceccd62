"""The help of every command: each line says with a verb what it does, and fits 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from tallyglass_tui.cli.main import main

VERBS = frozenset((
    "Add", "Alert", "Ask", "Begin", "Check", "Compare", "Compress", "Compute", "Connect", "Count", "Decode",
    "Delete", "Draw", "End", "Export", "Follow", "Go", "Include", "Keep", "Let", "List", "Listen", "Make", "Match",
    "Name", "Plan", "Print", "Prove", "Put", "Read", "Record", "Rehearse", "Replace", "Restore", "Run", "Save",
    "Select", "Serve", "Show", "Start", "State", "Stop", "Undo", "Use", "Wait", "Warn", "Write",
))  # fmt: skip


def commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[click.Command, tuple[str, ...]]]:
    """A command and those below it, with the words that call each."""
    yield command, words
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words[-1])
        for name in [*command.list_commands(context), *(["dashboard"] if command is main else [])]:
            below = command.get_command(context, name)
            assert below is not None
            if not below.hidden:
                yield from commands(below, (*words, name))


ALL = list(commands(main, ("tallyglass",)))


@pytest.mark.parametrize(("command", "words"), ALL, ids=[" ".join(words) for _, words in ALL])
def test_each_line_begins_with_a_verb_and_fits(command: click.Command, words: tuple[str, ...]) -> None:
    context = click.Context(command, info_name=" ".join(words), terminal_width=80)
    lines = command.get_help(context).splitlines()
    assert all(len(line) <= 80 for line in lines)
    first, after = [*lines[lines.index("") + 1 :], "", ""][:2]
    assert after == "", f"the first paragraph is one line: {first}"
    assert command is main or first.split()[0] in VERBS, first
    options = lines[lines.index("Options:") + 1 :]
    options = options[: options.index("")] if "" in options else options
    for line in options:
        assert line.startswith("  -"), f"it goes on in the next line: {line}"
        said = re.match(r"  \S.*?  +(\S+)", line)
        assert said is not None
        assert said[1] in VERBS, line


@pytest.mark.parametrize(("command", "words"), ALL, ids=[" ".join(words) for _, words in ALL])
def test_no_command_is_cut_in_the_list(command: click.Command, words: tuple[str, ...]) -> None:
    # What Click leaves of a terminal of 80 columns.
    text = command.get_help(click.Context(command, info_name="it", terminal_width=78))
    listed = text.partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()
    for line in listed:
        assert not line.endswith("..."), line
        assert line.split()[1].capitalize() in VERBS, line
