"""A question to the person at the terminal, in the middle of work."""

from __future__ import annotations

import asyncio
import sys

import click

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


async def confirmed(question: str, *, default: bool) -> bool:
    """Whether the person says yes; Enter is the ``default``. Raises click.Abort where the terminal ends.

    No thread reads the terminal: Ctrl-C would not end it, and it would abort the interpreter, which closes that file.
    """
    while True:
        click.echo(f"{question} [{'Y/n' if default else 'y/N'}]: ", nl=False, err=True)
        line = await _line()
        if not line:
            raise click.Abort
        word = line.strip().lower()
        if not word or word in _ANSWERS:
            return _ANSWERS.get(word, default)


async def _line() -> str:
    """The next line of stdin, which is a terminal: what can be read of one is a whole line."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()
