"""Who did it, on a server with access control: a session names its user, a statement without one does not."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo import MongoClient

from access_control import GuardedSet
from tallyglass_tui.cli.main import main

pytestmark = pytest.mark.live

DB = "who"
ROLES = [{"role": "readWrite", "db": DB}]


def incidents(uri: str) -> dict[str, dict[str, Any]]:
    """The incidents on the collections of ``DB``, as the user in ``uri`` sees them, by collection."""
    found = CliRunner().invoke(main, ["incidents", "--json", uri])
    assert found.exit_code == 0, found.stderr
    return {row["ns"].partition(".")[2]: row for row in json.loads(found.stdout) if row["ns"].startswith(f"{DB}.")}


def test_a_session_names_its_user_and_a_statement_names_none(guarded_set: GuardedSet) -> None:
    guarded = guarded_set
    with MongoClient[dict[str, Any]](guarded.uri("admin")) as client:
        client.admin.command("profile", 0, slowms=60_000)  # on a busy machine the log would name who wrote, too
    ann = guarded.create_user(ROLES)
    reader = guarded.create_user([{"role": "read", "db": "local"}])
    with MongoClient[dict[str, Any]](guarded.uri(ann), w="majority") as client:
        for name in ("looped", "many", "bulk"):
            client[DB][name].insert_many([{"_id": n} for n in range(40)])
        for n in range(30):
            client[DB].looped.delete_one({"_id": n})
        client[DB].many.delete_many({"_id": {"$lt": 30}})
        with client.start_session() as session, session.start_transaction():
            client[DB].bulk.delete_many({}, session=session)
    seen = incidents(guarded.uri("admin"))
    name, uid = f"{ann}@admin", sha256(f"{ann}@admin".encode()).hexdigest()
    assert {key: (row["user"], row["user_hash"]) for key, row in seen.items()} == {
        "looped": (name, uid),
        "bulk": (name, uid),
        "many": (None, None),
    }
    assert seen["looped"]["who"] == f"It was written by the account {name}."
    assert seen["many"]["who"].startswith("User unknown: a statement without a session leaves none.")
    with MongoClient[dict[str, Any]](guarded.uri("admin")) as client:
        deleted = [one["ts"] for one in client.local["oplog.rs"].find({"ns": f"{DB}.many", "op": "d"})]
    first, last = (f"{ts.time}:{ts.inc}" for ts in (min(deleted), max(deleted)))
    expected = {
        "first_ts": first, "last_ts": last, "point": first, "documents": 30, "operations": len(deleted), "sessions": 0,
        "routine": False, "note": "", "open": True,
    }  # fmt: skip
    assert {name: seen["many"][name] for name in expected} == expected
    unknown = incidents(guarded.uri(reader))["looped"]
    assert (unknown["user"], unknown["user_hash"]) == (None, uid)
    assert unknown["who"].startswith(f"User unknown: none of those that may be listed has the hash {uid[:12]}")
    with MongoClient[dict[str, Any]](guarded.uri("admin")) as client:
        client.drop_database(DB)
