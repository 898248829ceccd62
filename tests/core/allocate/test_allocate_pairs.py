"""Each class has an asynchronous twin that does the same: the two differ only where they must."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import pytest

from tallyglass import allocate
from tallyglass.allocate import format as number_format

PAIRS = {
    name: (getattr(module, name), getattr(module, f"Async{name}"))
    for module in (allocate, number_format)
    for name in module.__all__
    if f"Async{name}" in module.__all__
}
RENAMED = {"run_async": "run", "__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}
WAITS = {"Cached", "GaplessInsert"}
"""Their waiting differs: by threads and tasks, and by whose cancellation has to be survived."""


class Synchronous(ast.NodeTransformer):
    """An asynchronous method as its synchronous twin is written."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        plain = ast.FunctionDef(**{name: value for name, value in ast.iter_fields(node)}, lineno=0, col_offset=0)
        return self.visit(plain)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.generic_visit(node)
        node.name, node.returns = RENAMED.get(node.name, node.name), None
        for argument in [*node.args.args, *node.args.kwonlyargs]:
            argument.annotation = None
        node.body = [line for line in node.body if not is_docstring(line) and "_home" not in ast.dump(line)]
        return node

    def visit_Await(self, node: ast.Await) -> Any:
        return self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> Any:
        node.id = RENAMED.get(node.id, node.id).removeprefix("Async").replace("_Async", "_")
        return node

    def visit_keyword(self, node: ast.keyword) -> Any:
        if node.arg == "asynchronous":
            node.value = ast.Constant(None)
        self.generic_visit(node)
        return node


def is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def methods(kind: type) -> dict[str, str]:
    """The code of each method that a class and its public bases define, as if it were synchronous."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("tallyglass.allocate") or base.__name__ in ("Uncopyable", "CacheBase"):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                plain = Synchronous().visit(node)
                found.setdefault(plain.name, ast.unparse(ast.fix_missing_locations(plain)))
    return found


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_synchronous_and_asynchronous_classes_match(name: str) -> None:
    plain, asynchronous = (methods(kind) for kind in PAIRS[name])
    public = {method for method in plain if not method.startswith("_")}
    assert public - {"reset_after_fork"} == {m for m in asynchronous if not m.startswith("_")} - {"reset_after_fork"}
    for method in public:
        if isinstance(getattr(PAIRS[name][0], method), property):
            continue
        one, two = (inspect.signature(getattr(kind, method)) for kind in PAIRS[name])
        assert [(p.name, p.kind, p.default) for p in one.parameters.values()] == [
            (p.name, p.kind, p.default) for p in two.parameters.values()
        ], method
    if name not in WAITS:
        assert plain == asynchronous
