"""Convert reStructuredText roles in docstrings to Markdown for the documentation site."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

_ROLE = re.compile(r":[a-z]+:`(?:~[\w.]*?\.)?([^`]+?)`")


def plain(text: str) -> str:
    """Return ``text`` with roles such as :meth:`~a.b.C.d` as `d`, and double backticks as single ones."""
    return re.sub(r"``([^`]+)``", r"`\1`", _ROLE.sub(r"`\1`", text))


class PlainRoles(Extension):
    """A griffe extension that converts each docstring as it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Convert one docstring."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = plain(obj.docstring.value)
