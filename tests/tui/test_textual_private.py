"""Each private name of Textual that is used: present in this version, and used in one place only."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import textual
from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.timer import Timer

import tallyglass_tui
from tallyglass_tui.terminal import app as terminal_app
from tallyglass_tui.terminal import driver as terminal_driver

APP = {
    "_close_messages_no_wait",
    "_driver",
    "_exception",
    "_exit",
    "_exit_renderables",
    "_fatal_error",
    "_handle_exception",
    "_return_code",
    "_set_pointer_shape",
}
SCREEN = {"_compositor"}
TIMER = {"_skip"}
DRIVER = {
    "_app",
    "_debug",
    "_file",
    "_get_terminal_size",
    "_in_band_window_resize",
    "_loop",
    "_run_input_thread",
    "_sigcont_application",
    "_sigtstp_application",
}
MODULES = {"textual._parser", "textual._xterm_parser"}

# What Textual itself must call for an override to have its effect.
CALLED = {
    "_set_pointer_shape": Screen,
    "_handle_exception": MessagePump,
    "_fatal_error": App._handle_exception,
    "_run_input_thread": LinuxDriver.start_application_mode,
}

PRIVATE = re.compile(r"\b(?:def |self\.)(_[a-z]\w*)")
ROOT = Path(__file__).parents[2]
TERMINAL = Path(terminal_app.__file__).parent


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((App, name) for name in sorted(APP)),
        *((Screen, name) for name in sorted(SCREEN)),
        *((lambda: Timer(App(), 1.0), name) for name in sorted(TIMER)),
        *((lambda: LinuxDriver(App()), name) for name in sorted(DRIVER)),
    ],
)
async def test_this_textual_has_the_name(make: Callable[[], object], name: str) -> None:
    owner = make()
    assert hasattr(owner, name), f"Textual {textual.__version__} has no {type(owner).__name__}.{name} any more"


@pytest.mark.parametrize(("name", "caller"), CALLED.items())
def test_this_textual_calls_the_overridden_methods(name: str, caller: Any) -> None:
    source = inspect.getsource(caller)
    assert f".{name}" in source, f"Textual {textual.__version__} does not call {name} in {caller.__qualname__} any more"


def test_this_textual_has_the_parser() -> None:
    parser = XTermParser()
    assert [event.key for event in parser.feed("a\x1b[A")] == ["a", "up"]  # type: ignore[attr-defined]
    assert not list(parser.tick())
    assert issubclass(ParseError, Exception)


def test_the_list_is_what_the_terminal_package_uses() -> None:
    used: set[str] = set()
    for module in (terminal_app, terminal_driver):
        used |= {name for _, name in private_names(Path(module.__file__), of_module(module))}
    assert used == APP | SCREEN | TIMER | DRIVER | MODULES


@pytest.mark.long
def test_nothing_else_uses_a_private_name_of_textual() -> None:
    found: list[str] = []
    for info in pkgutil.walk_packages(tallyglass_tui.__path__, "tallyglass_tui."):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            file = Path(str(module.__file__))
            if file.parent != TERMINAL or file.name not in ("app.py", "driver.py"):
                found += [f"{file}:{line} {name}" for line, name in private_names(file, of_module(module))]
    for file in [*ROOT.glob("bench/*.py"), *ROOT.glob("screenshots/*.py"), *ROOT.glob("tests/**/*.py")]:
        if file.name not in ("idle.py", Path(__file__).name):
            found += [f"{file}:{line} {name}" for line, name in private_names(file, set())]
    assert not found


def of_module(module: Any) -> set[str]:
    """The private names that the classes of a module inherit from Textual."""
    classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    bases = {base for one in classes for base in one.__mro__[1:] if base.__module__.startswith("textual")}
    return {name for base in bases for name in private_in(base)}


@cache
def private_in(owner: type) -> frozenset[str]:
    """The private names that a class defines, or sets on ``self``."""
    return frozenset(PRIVATE.findall(inspect.getsource(owner)))


@cache
def all_private() -> frozenset[str]:
    """Every private name in Textual but those that our own classes have too: here the object is not known."""
    ours = [file for folder in ("core", "tui", "bench", "tests") for file in (ROOT / folder).rglob("*.py")]
    theirs = Path(textual.__file__).parent.rglob("*.py")
    return frozenset(defined_in(theirs) - defined_in(ours))


def defined_in(files: Iterable[Path]) -> set[str]:
    return {name for file in files for name in PRIVATE.findall(file.read_text("utf-8"))}


def private_names(file: Path, inherited: set[str]) -> Iterator[tuple[int, str]]:
    """The private names of Textual that a file uses, each with its line; ``inherited`` are those of its own classes."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual._"):
            yield node.lineno, str(node.module)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in inherited:
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if node.attr in (inherited if own else all_private() | inherited):
                yield node.lineno, node.attr
