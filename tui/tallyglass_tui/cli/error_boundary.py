"""The error boundary of every command: an error becomes one sentence on stderr and an exit code.

Exit codes: 0 success; 1 and 2 as the command defines them; 2 also if what was typed is wrong (an argument, a
connection string, a profile); 3 when the question could not be answered (no server, no privilege, an unexpected
error); 130 after Ctrl-C; 141 if the reader of the output left before its end.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import click

from tallyglass.connection.secret import scrub
from tallyglass.errors import InputError, TallyglassError
from tallyglass.text import clean, clean_block

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What the file or the disk behind stdout says; files that a command opens itself have their own sentences."""
_TABLE_ERRORS = frozenset({"SQLITE_FULL", "SQLITE_IOERR_WRITE"})
"""What SQLite says of the disk behind tables that do not fit into memory, by name: its module is not loaded here."""

TRACEBACK_VARIABLE = "TALLYGLASS_TRACEBACK"
# Exit codes. Commands may end with others of their own, which their help lists.
OK = 0  # exit code
BAD_USAGE = 2  # exit code, also Click's
UNKNOWN = 3  # exit code of plugins of monitoring systems for what could not be found out
INTERRUPTED = 130  # exit code by the convention of shells: 128 and SIGINT
READER_LEFT = 141  # exit code by the same convention: 128 and SIGPIPE
_KINDS = {"float range": "a number", "integer range": "a whole number"}


class ReaderLeftError(Exception):
    """Nobody reads the output any more. Click would end a command with 1 for the error of the system, which a command
    may mean otherwise."""


def error_boundary(work: Callable[[], object]) -> int:
    """Run a command and return its exit code. Errors go to stderr without traceback, secrets or control characters."""
    warnings.showwarning = _one_line_warning
    _prepare_streams()
    try:
        result = work()
        sys.stdout.flush()
    except (BrokenPipeError, ReaderLeftError):
        _discard_output()
        return READER_LEFT
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.ClickException as error:
        print_message(_usage(error))
        return error.exit_code
    except TallyglassError as error:
        print_message(str(error))
        return BAD_USAGE if isinstance(error, InputError) else UNKNOWN
    except OSError as error:
        return _unwritable(error) if error.errno in _DISK_ERRORS else _unexpected_error(error)
    except Exception as error:  # noqa: BLE001 - last resort: every other error is handled above
        return _no_room() if getattr(error, "sqlite_errorname", "") in _TABLE_ERRORS else _unexpected_error(error)
    return result if isinstance(result, int) else OK


def _prepare_streams() -> None:
    """Replace closed streams by /dev/null, and show escapes on a terminal that is not UTF-8 instead of failing."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  open to the end
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_message(text: str) -> None:
    """Print one line to stderr, without control characters and secrets."""
    _to_stderr(f"tallyglass: {clean(scrub(text), 2000)}\n")


def print_aside(line: str) -> None:
    """Print a line for pasting to stderr, as it is."""
    _to_stderr(f"{line}\n")


def warn(text: str) -> None:
    """Print a warning to stderr."""
    print_message(f"warning: {text}")


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # stderr is closed
        pass


def _usage(error: click.ClickException) -> str:
    if not isinstance(error, click.UsageError):
        return usage_sentence(error)
    command = error.ctx.command_path if error.ctx else "tallyglass"
    return f"{usage_sentence(error)} Try: {command} --help"


def usage_sentence(error: click.ClickException) -> str:
    """The usage error as a whole sentence."""
    sentence = error.format_message().rstrip()
    for kind, plain in _KINDS.items():
        sentence = sentence.replace(f"is not a valid {kind}", f"is not {plain}")
    return sentence if sentence.endswith((".", "?", "!", "?)")) else f"{sentence}."


def _unexpected_error(error: Exception) -> int:
    if os.environ.get(TRACEBACK_VARIABLE):
        _to_stderr(clean_block(scrub("".join(traceback.format_exception(error)))) + "\n")
    print_message(
        f"Unexpected error ({type(error).__name__}). Please report it; {TRACEBACK_VARIABLE}=1 prints the traceback."
    )
    return UNKNOWN


def _no_room() -> int:
    print_message(
        "Temporary tables cannot be written: No space left on device. Make room in the plan's folder and in $TMPDIR."
    )
    return UNKNOWN


def _unwritable(error: OSError) -> int:
    _discard_output()
    print_message(f"The output cannot be written: {error.strerror}. Its last line may be incomplete.")
    return UNKNOWN


def _discard_output() -> None:
    """The rest of the buffer must not raise again when the interpreter closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    warn(str(message))
