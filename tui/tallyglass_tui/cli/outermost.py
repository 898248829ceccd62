"""The outermost place of every command: an error becomes one sentence on stderr and an exit code, nothing else.

Exit codes: 0 done; 1 and 2 as the command's contract says; 2 also for arguments that cannot be read; 3 where
the question could not be answered (no server, no privilege, something unforeseen); 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import click

from tallyglass.connection.secret import scrub
from tallyglass.errors import InputError, TallyglassError
from tallyglass.text import clean, clean_block

TRACEBACK_VARIABLE = "TALLYGLASS_TRACEBACK"
OK = 0
BAD_USAGE = 2
UNKNOWN = 3
INTERRUPTED = 130
_UNKNOWN_OPTION = re.compile(r"Unknown option: (\S+?)\. ")
_KINDS = {"float range": "a number", "integer range": "a whole number"}


def guarded(work: Callable[[], object]) -> int:
    """Run a command; its exit code. Whatever it raises is told on stderr: no traceback, no secret, no control byte."""
    warnings.showwarning = _one_line_warning
    _settle_streams()
    try:
        result = work()
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_has_gone()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.ClickException as error:
        complain(_usage(error))
        return error.exit_code
    except TallyglassError as error:
        complain(str(error))
        return BAD_USAGE if isinstance(error, InputError) else UNKNOWN
    except Exception as error:  # noqa: BLE001  the last guard of the program: it reports what nothing else foresaw
        return _unforeseen(error)
    return result if isinstance(result, int) else OK


def _settle_streams() -> None:
    """Give a closed stream a place to go, and let a terminal that is not UTF-8 show escapes instead of failing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def complain(text: str) -> None:
    """One message to stderr, on one line, with nothing in it that acts on a terminal."""
    _to_stderr(f"tallyglass: {clean(scrub(text), 2000)}\n")


def warn(text: str) -> None:
    """One warning to stderr; the command goes on."""
    complain(f"warning: {text}")


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody listens there
        pass


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" Try: {context.command_path} --help" if isinstance(context, click.Context) else ""
    return usage_words(error) + hint


def usage_words(error: click.ClickException) -> str:
    """What is wrong with the words that were typed, in a whole sentence."""
    said = error.format_message().rstrip()
    for kind, plain in _KINDS.items():
        said = said.replace(f"is not a valid {kind}", f"is not {plain}")
    return said if said.endswith((".", "?", "!")) else f"{said}."


def _unforeseen(error: Exception) -> int:
    if os.environ.get(TRACEBACK_VARIABLE):
        _to_stderr(clean_block(scrub("".join(traceback.format_exception(error)))) + "\n")
    complain(
        f"Something went wrong that was not foreseen ({type(error).__name__}). "
        f"Please report it; {TRACEBACK_VARIABLE}=1 shows where."
    )
    return UNKNOWN


def _reader_has_gone() -> int:
    # What is still in the buffer must not raise again when the interpreter closes stdout.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    said = str(message)
    unknown = _UNKNOWN_OPTION.match(said)
    if unknown:
        said = f"the connection string's option {unknown[1]} is not known, and has no effect."
    warn(said)
