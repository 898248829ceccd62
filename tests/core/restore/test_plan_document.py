"""A plan that was written by another version, truncated or edited is refused, not completed by guesses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.plans import changed, make_plan
from tallyglass.errors import InputError
from tallyglass.moment import Ts, from_seconds
from tallyglass.paths import home
from tallyglass.restore.model.check import Check, Level
from tallyglass.restore.model.document import from_json, to_json
from tallyglass.restore.model.proof import ExpectedNamespace, Loss, Reissue, Slice
from tallyglass.restore.model.source import WITH_BACKUP, Backup, FromBackup, FromImages
from tallyglass.restore.model.step import Command, Phase, PlanSteps
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.model.way import FROM_IMAGES, WITHOUT_SPARE
from tallyglass.restore.plan.facts import plan_needs
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.tools.tool_uri import ToolUri
from tallyglass.text import clean_name

BACKUP = Backup(Path("/b"), "directory", False, Ts(5, 1), None, "oplog", namespaces=("s.c",), bytes=9)
WITHOUT_IMAGE = Backup(Path("/b"), WITH_BACKUP, False, Ts(5, 1), None, "given")
PLAN = make_plan(
    Ts(9, 1), FromBackup(BACKUP, "s:2", ("/slices",)), from_seconds(99), start=Ts(5, 1),
    checks=(Check("loss", Level.WARN, "Lost."),), commands=(Command(Phase.SECURE, "A step", ("ls",), "ls"),),
    loss=(Loss("s.c", 1, 2, 3),), reissue=(Reissue("s.k", "a", "seq", 5, 9.5, "fix"),),
    expected=(ExpectedNamespace("s.c", "collection", 12),), returns=(Return("s.c", Strategy.WHOLE, "s.c_2"),),
    slice=Slice(3, Ts(5, 1), Ts(9, 1), 100), hours_left=3.5, passwords=("source",),
)  # fmt: skip


def every_object(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, dict):
        yield content
    for inner in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from every_object(inner)


def test_what_was_written_is_read() -> None:
    assert from_json(to_json(PLAN)) == PLAN
    assert from_json(to_json(changed(PLAN, slice=None, start=None))) == changed(PLAN, slice=None, start=None)


def test_a_plan_from_images_is_written_with_what_its_documents_come_from() -> None:
    alone, filled, none = (
        changed(PLAN, source=source)
        for source in (
            FromImages(7),
            FromImages(7, WITHOUT_IMAGE),
            FromImages(7, replace(WITHOUT_IMAGE, form=WITHOUT_SPARE)),
        )
    )
    for made, path, form in (
        (alone, "config.system.preimages", FROM_IMAGES),
        (filled, "/b", WITH_BACKUP),
        (none, "/b", WITHOUT_SPARE),
    ):
        content = json.loads(to_json(made))
        assert content.keys() == json.loads(to_json(PLAN)).keys()
        assert (content["backup"]["path"], content["backup"]["form"], content["backup"]["bytes"]) == (path, form, 7)
        assert (content["spare"], content["oplog"]) == ("", [])
        assert from_json(to_json(made)) == made
        with pytest.raises(InputError, match="it has no spare"):
            print(made.from_backup)


def test_every_field_is_needed_and_no_other_is_known() -> None:
    content = json.loads(to_json(PLAN))
    objects = list(every_object(content))
    assert len(objects) == 10
    for one in objects:
        for name in list(one):
            kept = dict(one)
            del one[name]
            with pytest.raises(InputError) as error:
                from_json(json.dumps(content))
            assert name in error.value.title or name in ("format", "limit", "level"), error.value.title
            one.clear()
            one.update(kept)
        one["more"] = 1
        with pytest.raises(InputError, match="has more, which is not known"):
            from_json(json.dumps(content))
        del one["more"]
    assert from_json(json.dumps(content)) == PLAN


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 1}, "is of format 1; this version reads format 10"),
        ({"expected": {}}, "expected is not of the right type"),
        ({"expected_applied": "12"}, "expected_applied is not of the right type"),
        ({"expected_applied": True}, "expected_applied is not of the right type"),
        ({"limit": 5}, "limit is not of the right type"),
        ({"level": "ok"}, "level is not that of its checks"),
        ({"set_name": None}, "set_name is not of the right type"),
    ],
)
def test_a_value_that_does_not_fit(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_json(json.dumps(json.loads(to_json(PLAN)) | change))


MANY = changed(
    PLAN,
    expected=tuple(ExpectedNamespace(f"s.c{n}", "collection", n) for n in range(3)),
    loss=(Loss("s.a", 1, 0, 0), Loss("other.b", 1, 0, 0)),
    returns=tuple(Return(f"s.c{n}", Strategy.MERGE if n == 2 else Strategy.WHOLE, f"s.c{n}_2") for n in range(3)),
)


def test_a_packed_table_is_read_as_the_original_list() -> None:
    packed = to_json(MANY, packed=True)
    assert json.loads(packed)["loss"]["columns"] == ["ns"]
    assert json.loads(packed)["returns"]["rows"] == [["c0"], ["c1"], ["c2", "merge"]]
    assert from_json(packed) == MANY
    assert len(packed) < len(to_json(MANY))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": [["c0"]]}, "expected has a row that is not as long as its columns"),
        ({"after": {"options": "documents"}}, "expected is not of the right type"),
        ({"begin": {"documents": "s."}}, "expected is not of the right type"),
        ({"columns": ["ns"], "rows": [["s.c0"]]}, "expected lacks documents"),
        ({"same": []}, "expected is not of the right type"),
        ({"more": 1}, "expected is not of the right type"),
    ],
)
def test_a_table_that_was_cut_is_refused(change: dict[str, Any], words: str) -> None:
    content = json.loads(to_json(MANY, packed=True))
    content["expected"] |= change
    with pytest.raises(InputError, match=words):
        from_json(json.dumps(content))


@pytest.mark.parametrize("own_spare", [False, True])
def test_a_plan_needs_a_folder_programs_and_the_passwords_that_the_tools_ask_for(own_spare: bool) -> None:
    request = RestoreRequest(Path("/b"), "mongodb://h:1/", before=Ts(1_700_000_000, 7))
    source, spare = ToolUri("mongodb://h:1/", "ann\n", True, ("h:1",)), ToolUri("mongodb://s:2/", "", True, ("s:2",))
    found = plan_needs(request, (100, 10), source, spare, own_spare=own_spare)
    passwords = ("source",) if own_spare else ("source", "spare")
    folder = str(home() / "tallyglass-20231114-221320-7")
    assert found == PlanSteps(
        work_dir=folder, tools_needed="100.10", source_user=clean_name("ann\n"), passwords=passwords
    )
    assert plan_needs(replace(request, work_dir="/w"), (100, 10), None).work_dir == "/w"
