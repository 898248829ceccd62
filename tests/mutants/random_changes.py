"""Random single changes of the code: what a list written by hand does not think of.

A change flips one comparison, boolean operator, sign, truth value or condition, or moves an integer by one. The same
seed draws the same changes of the same code. Changes that make no difference are listed in ``equivalent.toml``.
"""

from __future__ import annotations

import ast
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.mutation import ROOT, Mutation

PACKAGES = ("restore", "oplog", "counters", "allocate")
_USED_BY = {"oplog": ("restore",)}
"""Packages whose tests also cover one: a restore reads and applies entries."""

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add}


def draw(seed: int, count: int) -> list[Mutation]:
    """Return ``count`` random changes of the packages; fewer if the code has no more."""
    equivalent = {(one["file"], one["old"], one["new"]) for one in read_equivalent()}
    files = [file for package in PACKAGES for file in sorted((ROOT / "core/tallyglass" / package).rglob("*.py"))]
    changes = [change for file in files for change in _changes(file)]
    random.Random(seed).shuffle(changes)
    chosen = (one for one in changes if (one.file, one.old, one.new) not in equivalent)
    return [one for one, _ in zip(chosen, range(count), strict=False)]


def read_equivalent() -> list[dict[str, str]]:
    """The changes that make no difference: of each the file, the text before and after it, and the reason."""
    found: list[dict[str, str]] = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["change"]
    return found


def _changes(file: Path) -> Iterator[Mutation]:
    source, name = file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()
    package = Path(name).parts[2]
    tests = tuple(f"tests/core/{one}" for one in (package, *_USED_BY.get(package, ())))
    lines = source.splitlines(keepends=True)
    for node, replacement in _replacements(ast.parse(source)):
        new_code = ast.unparse(replacement)
        begin, end = node.lineno - 1, node.end_lineno or node.lineno
        # Columns of the syntax tree count bytes.
        head = lines[begin].encode()[: node.col_offset].decode()
        tail = lines[end - 1].encode()[node.end_col_offset :].decode()
        new = f"{head}{new_code}{tail}" if isinstance(node, ast.Constant) else f"{head}({new_code}){tail}"
        # Add the lines around until the text is unique.
        first, last = begin, end
        while source.count("".join(lines[first:last])) > 1:
            first, last = max(0, first - 1), last + 1
        old = "".join(lines[first:last])
        new = "".join(lines[first:begin]) + new + "".join(lines[end:last])
        yield Mutation(name, old, new, "unknown", tests)


def _replacements(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each expression that can be changed, with one changed copy."""
    for node in _code(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            yield node, ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators)
        elif isinstance(node, ast.BoolOp):
            yield node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        elif isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            yield node, ast.BinOp(node.left, _SIGNS[type(node.op)](), node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, node.operand
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, ast.Constant(not node.value)
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, ast.Constant(node.value + 1)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below, without annotations and without f-strings, whose positions are not exact."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child
                yield from _code(child)
