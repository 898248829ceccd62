"""Privileges cover resources as in MongoDB, and docs/privileges.md matches the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallyglass.deployment.privileges import State, allows, create_role, fix, jobs, judge, readable
from tallyglass.trial import reads_one_namespace

DOCS = Path(__file__).resolve().parents[3] / "docs"
ANY = {"db": "", "collection": ""}


@pytest.mark.parametrize("job", jobs(("shop",)), ids=lambda job: job.id)
def test_docs_contain_the_exact_role_of_each_job(job: object) -> None:
    assert create_role(job) in (DOCS / "privileges.md").read_text()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("held", "wanted", "covered"),
    [
        (ANY, {"db": "shop", "collection": "orders"}, True),
        (ANY, {"db": "shop", "collection": ""}, True),
        (ANY, {"db": "local", "collection": "oplog.rs"}, False),
        (ANY, {"db": "shop", "collection": "system.js"}, False),
        ({"db": "shop", "collection": ""}, ANY, False),
        ({"db": "shop", "collection": ""}, {"db": "shop", "collection": "orders"}, True),
        ({"db": "", "collection": "orders"}, {"db": "shop", "collection": "orders"}, True),
        ({"db": "shop", "collection": "orders"}, {"db": "shop", "collection": ""}, False),
        ({"cluster": True}, {"cluster": True}, True),
        ({"cluster": True}, ANY, False),
        ({"anyResource": True}, {"db": "local", "collection": "oplog.rs"}, True),
        ({"system_buckets": ""}, ANY, False),
    ],
)
def test_resource_coverage(held: dict[str, object], wanted: dict[str, object], covered: bool) -> None:
    assert allows([{"resource": held, "actions": ["find"]}], wanted, "find") is covered
    assert allows([{"resource": held, "actions": ["anyAction"]}], wanted, "find") is covered
    assert not allows([{"resource": held, "actions": ["insert"]}], wanted, "find")


def test_lists_completely_readable_databases() -> None:
    held = [{"resource": {"db": name, "collection": ""}, "actions": ["find"]} for name in ("shop", "local", "shop")]
    held.append({"resource": {"db": "crm", "collection": "IDs"}, "actions": ["find"]})
    assert readable(held) == ("shop",)
    assert readable([*held, {"resource": ANY, "actions": ["find"]}]) == ()


def test_fix_is_printable_with_hostile_names() -> None:
    verdict = judge(jobs(('a"b\x1b\x7f',))[0], [])
    assert verdict.state is State.DENIED
    for text in fix(verdict, "u\x1b'\x7f\n", "admin"):
        assert text.isascii()
        assert text.isprintable()


class _Empty:
    async def list_databases(self) -> list[str]:
        return ["admin"]


async def test_where_no_collection_is_seen_none_can_be_read_alone() -> None:
    assert not await reads_one_namespace(_Empty(), ())  # type: ignore[arg-type]
