"""Generated mongosh text, run from a file and pasted, yields exactly the value, name or command that it is for."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, DBRef, Decimal128, Int64, ObjectId, Regex
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

import database_tools
from access_control import ADMIN, GuardedSet
from hostile.samples import TEXTS, VALUES, collection_names
from tallyglass.counters.repair import move_command
from tallyglass.demo.server import ReplicaSet
from tallyglass.deployment.privileges import State, fix, jobs, judge, role_name
from tallyglass.mongo.gateway import Namespace
from tallyglass.mongo.mongosh import call, has_literal

pytestmark = [pytest.mark.live, pytest.mark.tools]

RAW: CodecOptions[RawBSONDocument] = CodecOptions(RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_MS)
PLAIN: dict[str, Any] = {
    "numbers": [0, -1, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, -(2**63), Int64(5), 1.0, -0.0, 1e300, 0.1],
    "decimals": [Decimal128("1.10"), Decimal128("1E+6144"), Decimal128("-0")],
    "others": [None, True, False, ObjectId("0" * 24), "", [], {}, [[]], {"a": {"b": []}}],
    "dates": [datetime(1, 1, 1, tzinfo=UTC), DatetimeMS(-1), DatetimeMS(8_640_000_000_000_000)],
    "binaries": [Binary(b"\x00\xff", kind) for kind in (0, 1, 2, 3, 4, 5, 6, 128)] + [b"\xff"],
    "expressions": [Regex("a/b\\n", "imsux"), Regex("", "")],
    "keys": {"__proto__": 1, "constructor": 2, "toString": {"__proto__": {"x": 1}}, "$set": 1, "a.b": 2},
    "order": {"b": 1, "10": 2, "9": [{"z": 1, "0": 2}], "a": {"1": 1, "0": 2}},
    "types": [{"_bsontype": "MaxKey"}, {"_bsontype": "Int32", "value": 5}],
    "reference": DBRef("c", {"z": 1, "0": 2}),
}


def mongosh(uri: str, lines: list[str], folder: Path, *, pasted: bool) -> str:
    """Run lines in mongosh and return the output. An error aborts a file, and appears in the output of pasted text."""
    environment = os.environ | {"PATH": f"{database_tools.search_path()}:{os.environ['PATH']}", "HOME": str(folder)}
    text = "".join(f"{line}\n" for line in lines)
    (folder / "text.js").write_text(text, encoding="ascii")
    how = [] if pasted else ["--file", str(folder / "text.js")]
    done = subprocess.run(
        ["mongosh", uri, "--norc", "--quiet", *how], input=text if pasted else "", env=environment, cwd=folder,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr or done.stdout
    assert "Error" not in done.stdout, done.stdout
    return done.stdout


def test_values_round_trip_byte_for_byte(replica_set: ReplicaSet, tmp_path: Path) -> None:
    values = TEXTS | VALUES | PLAIN
    assert {name for name, value in values.items() if not has_literal(value)} == {"far date"}
    lines = [call("mongosh.values", "insertOne", {"_id": name, "v": value}) for name, value in values.items()]
    with replica_set.client() as client:
        client.drop_database("mongosh")
        mongosh(replica_set.uri, lines, tmp_path, pasted=False)
        rows = client["mongosh"].get_collection("values", codec_options=RAW)
        found = {row["_id"]: bytes(row.raw) for row in rows.find()}
    other = [name for name, value in values.items() if found[name] != bson.encode({"_id": name, "v": value})]
    assert other == ["far date"], "JavaScript has no Date for it"


def test_finds_collections_of_any_name(replica_set: ReplicaSet, tmp_path: Path) -> None:
    names = set(collection_names().values())
    lines = [call(f"mongosh.{name}", "insertOne", {"_id": name}) for name in names]
    with replica_set.client() as client:
        client.drop_database("mongosh")
        mongosh(replica_set.uri, lines, tmp_path, pasted=True)
        assert set(client["mongosh"].list_collection_names()) == names
        assert {name: client["mongosh"][name].distinct("_id") for name in names} == {name: [name] for name in names}


def test_repair_command_advances_the_counter(replica_set: ReplicaSet, tmp_path: Path) -> None:
    identities = [7, 7.5, "it's \u2028 \x1b[2J", ObjectId(), Decimal128("1.10"), {"b": 1, "1": {"c": "x"}}]
    ns = Namespace("mongosh", "counters")
    with replica_set.client() as client:
        client.drop_database("mongosh")
        counters = client["mongosh"].counters
        counters.insert_many([{"_id": one, "n": {"seq": 5}} for one in identities])
        lines = [move_command(ns, one, "n.seq", 2**53 + 1) for one in identities]
        mongosh(replica_set.uri, [*lines, move_command(ns, 7, "n.seq", 3)], tmp_path, pasted=True)
        values = [row["n"]["seq"] for row in counters.find()]
    assert values == [2**53 + 1] * len(identities), "advanced to the exact value, and never set back"


def test_doctor_commands_enable_every_job(guarded_set: GuardedSet, tmp_path: Path) -> None:
    user = guarded_set.create_user()
    every = jobs(["shop", "a'b\x1b[2J"])
    for job in every:
        guarded_set.drop_role(role_name(job))
    lines = [line for job in every for line in fix(judge(job, []), user, "admin")]
    uri = guarded_set.uri(ADMIN).replace("+", "%20")  # mongosh does not decode "+" as a space; PyMongo does
    mongosh(uri, lines, tmp_path, pasted=True)
    (info,) = guarded_set.admin.admin.command("usersInfo", user, showPrivileges=True)["users"]
    assert {judge(job, info["inheritedPrivileges"]).state for job in every} == {State.ALLOWED}
