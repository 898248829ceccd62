"""A namespace that is emitted where mongorestore reads a pattern means itself alone.

The pattern language as it was read in its source: a backslash stands before ``*`` or a backslash that is meant; any
other ``*`` is any text; ``$`` is refused in an include.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in_restore import pattern, refuse, unescaped, wild_cards

from tallyglass.restore.order import escape_pattern

NAME = st.text(st.sampled_from("ab.*\\$ \n"), min_size=1, max_size=8).filter(lambda name: "$" not in name)


@settings(max_examples=100, deadline=None)
@given(name=NAME, other=NAME)
def test_an_emitted_namespace_is_itself_and_nothing_else(name: str, other: str) -> None:
    written = escape_pattern(f"db.{name}")
    assert pattern(written).fullmatch(f"db.{name}")
    assert bool(pattern(written).fullmatch(f"db.{other}")) is (name == other)
    assert unescaped(written) == f"db.{name}", "as the target of a rename"
    assert wild_cards(written) == 0


def test_what_mongorestore_refuses_is_refused_here() -> None:
    asked = {"nsInclude": ["db.a$b"], "nsExclude": [], "nsFrom": [], "nsTo": []}
    with pytest.raises(SystemExit):
        refuse(asked)
    with pytest.raises(SystemExit):
        refuse(asked | {"nsInclude": [], "nsFrom": ["db.*"], "nsTo": ["db.x"]})
