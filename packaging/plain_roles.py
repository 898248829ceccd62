"""Docstrings for the documentation site: cross-references of reStructuredText as the plain names of Markdown."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

_ROLE = re.compile(r":[a-z]+:`(?:~[\w.]*?\.)?([^`]+?)`")


def plain(text: str) -> str:
    """``text`` with :meth:`~a.b.C.d` as `d`, and what is in double backticks as in single ones."""
    return re.sub(r"``([^`]+)``", r"`\1`", _ROLE.sub(r"`\1`", text))


class PlainRoles(Extension):
    """Rewrites each docstring as it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite one."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = plain(obj.docstring.value)
