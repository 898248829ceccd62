"""The merge as JavaScript, run by node with the few methods of mongosh that it calls."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tallyglass.moment import Ts
from tallyglass.restore import mongosh

STAGE = """
const EJSON = {parse: (text) => ({v: JSON.parse(text).v["$timestamp"]})};
const NumberInt = (n) => n;
let sent = [];
const oplog = {find: (query) => {
  const rows = query.ts.$gt ? later : (reaches ? [{}] : []);
  return {limit: () => ({toArray: () => rows})};
}};
const connect = () => ({getSiblingDB: () => ({
  getCollection: () => oplog, runCommand: (body) => { sent.push(body); return {ok: 1}; }})});
const print = () => console.log(JSON.stringify(sent));
let db;
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_what_is_written_after_the_plan_is_left_alone() -> None:
    body = {"aggregate": "c_pitr", "pipeline": [{"$merge": {"into": "c"}}], "cursor": {}}
    text = mongosh.program([mongosh.merge_since("s.c", Ts(7, 2), body)], "mongodb://h:1/")
    later = [
        {"op": "u", "ns": "s.c", "o2": {"_id": 4}, "o": {}},
        {"op": "d", "ns": "s.c", "o": {"_id": 5}},
        {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [
            {"op": "i", "ns": "s.c", "o": {"_id": 6}}, {"op": "i", "ns": "s.other", "o": {"_id": 7}}]}},
    ]  # fmt: skip
    merged = _run(text, later)
    assert merged.returncode == 0, merged.stderr
    (sent,) = json.loads(merged.stdout)
    assert sent["pipeline"] == [{"$match": {"_id": {"$nin": [4, 5, 6]}}}, {"$merge": {"into": "c"}}]
    assert json.loads(_run(text, []).stdout)[0]["pipeline"] == body["pipeline"]
    gap = _run(text, [], reaches=False)
    assert gap.returncode != 0
    assert "plan again" in gap.stderr


def _run(text: str, later: list[object], *, reaches: bool = True) -> subprocess.CompletedProcess[str]:
    stage = f"const later = {json.dumps(later)}, reaches = {json.dumps(reaches)};\n{STAGE}"
    return subprocess.run(["node", "-e", stage + text], capture_output=True, text=True, timeout=60, check=False)
