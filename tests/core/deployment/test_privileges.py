"""Privileges cover resources as in MongoDB, and docs/privileges.md matches the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallyglass.deployment.privileges import State, allows, create_role, fix, jobs, judge, readable
from tallyglass.errors import PrivilegeError
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.trial import reads_one_namespace, why_unread

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


class _Listed:
    """A gateway on collections by database, none of which may be read."""

    def __init__(self, **databases: list[CollectionInfo]) -> None:
        self.databases = databases
        self.asked: list[object] = []

    async def list_databases(self) -> list[str]:
        return [*self.databases]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return self.databases[db]

    async def find_one(self, ns: Namespace, query: object) -> None:
        self.asked.append((str(ns), query))
        raise PrivilegeError("This user may not run find.")

    async def command(self, name: str) -> None:
        self.asked.append(name)


async def test_the_first_collection_with_data_is_read_to_see_whether_it_may_be() -> None:
    def listed(*names: str, kind: str = "collection") -> list[CollectionInfo]:
        return [CollectionInfo(Namespace.parse(name), kind) for name in names]

    gateway = _Listed(
        admin=listed("admin.x"), local=listed("local.x"), config=listed("config.x"),
        crm=listed("crm.v", kind="view") + listed("crm.system.js"), shop=listed("shop.a", "shop.b"),
    )  # fmt: skip
    assert await why_unread(gateway, "counters", ()) == "This user may not run find."  # type: ignore[arg-type]
    assert gateway.asked == [("shop.a", {})]
    assert await why_unread(gateway, "counters", ("crm", "admin")) == ""  # type: ignore[arg-type]
    assert await why_unread(gateway, "members", ()) == ""  # type: ignore[arg-type]
    assert gateway.asked == [("shop.a", {}), "replSetGetStatus"]
