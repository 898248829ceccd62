"""A stage for restore scenarios: a live set, a spare, backups, the emitted script run unchanged, and an independent
record of what the data was."""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import lz4.frame
from bson import Timestamp
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, timeout

from tallyglass.demo.server import ReplicaSet, Servers, free_port
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.data_files import start_script
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.indexes import canonical_index, canonical_options
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.plan.from_images import plan_undo
from tallyglass.restore.plan.prepare import prepare
from tallyglass.restore.plan.self_extracting import MODE, script
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.timeline.coverage import BACK_OFF_SECONDS
from tallyglass.restore.tools.find_mongod import find_mongod
from tallyglass.restore.undo.evidence import KnownStatement
from tallyglass.restore.undo.infer import NEXT_MILLIS

RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
OWN = ("admin", "config", "local")

State = dict[str, tuple[str, str, list[str], list[bytes]]]
"""By namespace: kind, options, indexes, and the documents as bytes in order of their own bytes."""


def record(client: MongoClient[Any], at: Ts | None = None, databases: tuple[str, ...] = ()) -> State:
    """What the server holds, read by nothing under test: now, or as the server itself remembers the moment ``at``."""
    state: State = {}
    for db in databases or tuple(name for name in client.list_database_names() if name not in OWN):
        for info in client[db].list_collections():
            name, kind = info["name"], info["type"]
            if name in ("system.views", "system.profile") or name.startswith("system.buckets."):
                continue
            indexes = [] if kind != "collection" else [canonical_index(i) for i in client[db][name].list_indexes()]
            options = "" if kind == "timeseries" else canonical_options(info["options"])
            stored = f"system.buckets.{name}" if kind == "timeseries" else name
            rows = [] if kind == "view" else sorted(documents(client, db, stored, at))
            state[f"{db}.{name}"] = (kind, options, sorted(indexes), rows)
    return state


def documents(client: MongoClient[Any], db: str, name: str, at: Ts | None) -> list[bytes]:
    """The documents of one collection as bytes."""
    if at is None:
        return [bytes(row.raw) for row in client[db].get_collection(name, codec_options=RAW).find()]
    level = {"level": "snapshot", "atClusterTime": Timestamp(at.t, at.i)}
    reply = client[db].command({"find": name, "readConcern": level, "batchSize": 100_000}, codec_options=RAW)
    assert reply["cursor"]["id"] == 0
    return [bytes(row.raw) for row in reply["cursor"]["firstBatch"]]


def empty(client: MongoClient[Any]) -> None:
    """Drop everything of a scenario. A server that does not answer any more fails it, rather than waiting for ever."""
    with timeout(300):
        for name in client.list_database_names():
            if name not in OWN:
                client.drop_database(name)


class Scene:
    """One scenario. The live set is shared between scenarios and emptied at the end; so is the spare."""

    def __init__(self, source: ReplicaSet, spare: Servers, folder: Path, path: str) -> None:
        self.source, self.spare, self.folder, self.path = source, spare, folder, path
        self.client = source.client()
        self.spare_client = spare.client(0)
        self.begun = self.now().next

    def close(self) -> None:
        for client in (self.client, self.spare_client):
            with closing(client):
                empty(client)

    def empty_spare(self) -> None:
        """Make the spare fit for one more plan."""
        empty(self.spare_client)

    @property
    def environment(self) -> Mapping[str, str]:
        venv = str(Path(sys.executable).parent)
        return os.environ | {"PATH": f"{self.path}:{venv}:/usr/bin:/bin", "HOME": str(self.folder)}

    def tool(self, *argv: str, **environment: str) -> None:
        """Run a tool as a person would; it must succeed."""
        done = subprocess.run(
            argv, env=self.environment | environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"

    def backup(self, *options: str, archive: bool = False, name: str = "backup", **environment: str) -> Path:
        """Take a backup with mongodump."""
        path = self.folder / name
        where = f"--archive={path}" if archive else f"--out={path}"
        self.tool("mongodump", f"--uri={self.source.uri}", where, *options, **environment)
        return path

    async def prepare(self, name: str = "backup") -> Path:
        """Write the sidecar for the next backup."""
        gateway = open_gateway(self.source.uri)
        try:
            return (await prepare(gateway, self.source.uri, self.folder / name)).write()
        finally:
            await gateway.close()

    async def incident(self, kind: str, ns: str, holding: Ts | None = None) -> Incident:
        """The newest incident of that kind in this scenario, or the one that holds an entry, found as the commands and
        the screen find it. What was emptied between scenarios is left out: a database that is dropped again and again
        is routine. With others' writes among them, to the same documents, updates are no updateMany."""
        kinds = (kind, "updates") if kind == "updateMany" else (kind,)
        gateway = open_gateway(self.source.uri)
        try:
            async for progress in scan(gateway, self.begun):
                found = [
                    one
                    for one in progress.incidents
                    if one.kind in kinds and one.ns == ns and (holding is None or one.first <= holding <= one.last)
                ]
                if progress.done:
                    assert found, [(one.kind, one.ns) for one in progress.incidents]
                    return max(found, key=lambda one: (one.kind == kind, one.first))
        finally:
            await gateway.close()
        raise AssertionError

    def newest_of(self, query: dict[str, Any]) -> Ts:
        """The ts of the newest entry that matches."""
        row = self.client.local["oplog.rs"].find_one(query, sort=[("$natural", -1)])
        assert row is not None, query
        return Ts(row["ts"].time, row["ts"].inc)

    def entry_before(self, ts: Ts) -> Ts:
        """The ts of the entry before one."""
        return self.newest_of({"ts": {"$lt": Timestamp(ts.t, ts.i)}})

    def now(self) -> Ts:
        """The timestamp of what was written last, once a majority has it: before 5.0 a write by default waits for one
        member, and a set that was started a moment ago knows no majority yet."""
        newest: Any = None
        majority: Any = None
        while majority is None or majority["ts"] < newest["ts"]:
            written = self.client.admin.command("hello")["lastWrite"]
            newest, majority = newest or written["opTime"], written.get("majorityOpTime")
            if majority is None:
                self.settle()
        return Ts(majority["ts"].time, majority["ts"].inc)

    def first_entry(self, query: dict[str, Any], since: Ts) -> Ts:
        """The ts of the first entry that matches, from ``since`` on."""
        wanted = {"ts": {"$gt": Timestamp(since.t, since.i)}} | query
        row = self.client.local["oplog.rs"].find_one(wanted, sort=[("$natural", 1)])
        assert row is not None, query
        return Ts(row["ts"].time, row["ts"].inc)

    def await_out_of_window(self, query: dict[str, Any]) -> None:
        """Wait until entries of earlier scenarios that match are older than what a replay begins with, for safety,
        before the backup."""
        while True:
            self.settle()
            row = self.client.local["oplog.rs"].find_one(query, sort=[("$natural", -1)])
            if row is None or row["ts"].time + BACK_OFF_SECONDS < self.now().t:
                return
            time.sleep(0.1)

    def await_pause(self, ns: str) -> None:
        """Wait until what is written next no longer follows at once on what was inserted into a namespace, as the
        entries of one statement do."""
        oplog = self.client.local["oplog.rs"]
        inserted = oplog.find_one({"op": "i", "ns": ns}, sort=[("$natural", -1)])["wall"]
        while oplog.find_one(sort=[("$natural", -1)])["wall"] - inserted <= timedelta(milliseconds=NEXT_MILLIS):
            self.settle()

    def settle(self) -> None:
        """Write once more with majority, so that everything before is on a majority too."""
        self.client["settle"].get_collection("settle").insert_one({})

    async def plan(self, backup: Path, limit: Ts, **more: Any) -> Plan:
        """Plan through a gateway, as the commands and the screen do."""
        uri = more.pop("uri", self.source.uri)
        gateway = open_gateway(uri)
        asked = {"spare": self.spare.members[0].address, "work_dir": str(self.folder / "work")} | more
        try:
            return await plan_restore(gateway, RestoreRequest(backup, uri, before=limit, **asked))
        finally:
            await gateway.close()

    async def undo(
        self, incident: Incident, backup: Path | None = None, *, evidence: KnownStatement | None = None
    ) -> Plan:
        """Plan the undo from pre-images; what has no image may come from a backup."""
        gateway = open_gateway(self.source.uri)
        try:
            work = str(self.folder / "work")
            request = RestoreRequest(backup, self.source.uri, incident=incident, work_dir=work, evidence=evidence)
            return await plan_undo(gateway, request)
        finally:
            await gateway.close()

    def save(self, plan: Plan) -> Path:
        """The script as a file."""
        path = self.folder / "restore.sh"
        path.write_text(script(plan))
        path.chmod(MODE)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        return path

    def run(self, plan: Plan, *options: str, seconds: float = 900) -> subprocess.CompletedProcess[str]:
        """Run the emitted script unchanged."""
        assert plan.level is not Level.BLOCK, blocks(plan)
        return self.run_file(self.save(plan), *options, seconds=seconds)

    def run_file(self, path: Path, *options: str, seconds: float = 900) -> subprocess.CompletedProcess[str]:
        """Run a script unchanged, without questions."""
        return subprocess.run(
            [str(path), "--yes", *options],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def must_run(self, plan: Plan, *options: str, seconds: float = 900) -> str:
        """The same, and it must succeed."""
        assert plan.level is not Level.BLOCK, blocks(plan)
        done = self.run(plan, *options, seconds=seconds)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{done.args}"
        return done.stderr


def kill_at(scene: Scene, plan: Plan, step: int, *, with_step: bool) -> None:
    """Kill the script in a step: alone, so that the step goes on, or with all that it runs, as when the machine goes
    down."""
    running = Path(plan.steps.work_dir) / "running"
    with subprocess.Popen(
        [str(scene.save(plan)), "--yes"],
        env=scene.environment, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        while f"[{step}/" not in (line := process.stderr.readline()):
            assert line, "it ended before that step"
        while with_step and not running.exists() and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        if with_step and running.exists() and (named := running.read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(named[0]), signal.SIGKILL)


def resume(scene: Scene, plan: Plan) -> subprocess.CompletedProcess[str]:
    """Run it again as its message says: after the step of the killed run has ended."""
    deadline = time.monotonic() + 60
    while True:
        done = scene.run(plan)
        if "[still-running]" not in done.stderr:
            return done
        assert time.monotonic() < deadline
        time.sleep(0.2)


class OtherClient(ABC):
    """Another client that writes beside an accident and its undo, from entry to exit; a subclass says what in
    :meth:`work`, until ``stop`` is set."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self.stop = scene, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join()

    @abstractmethod
    def work(self, client: MongoClient[Any]) -> None:
        """Write until ``stop`` is set."""

    def _run(self) -> None:
        with self._scene.source.client() as client:
            self.work(client)


def with_wal_g(scene: Scene, storage: str = "wal-g", name: str = "stream_1") -> Path:
    """A backup as wal-g stores it, of the live set: an archive that it compresses, and the positions around it."""
    bases = scene.folder / storage / "basebackups_005"
    (bases / name).mkdir(parents=True)
    before = scene.now()
    archive = scene.backup(archive=True, name=f"archive-{name}").read_bytes()
    (bases / name / "stream.lz4").write_bytes(lz4.frame.compress(archive, content_checksum=True))
    ends = {side: {"LastMajTS": {"TS": ts.t, "Inc": ts.i}} for side, ts in (("Before", before), ("After", scene.now()))}
    content = {"BackupName": name, "BackupType": "logical", "MongoMeta": ends}
    (bases / f"{name}_backup_stop_sentinel.json").write_text(json.dumps(content))
    return scene.folder / storage


def with_pbm(scene: Scene) -> Path:
    """A logical backup of the live set as PBM stores it, uncompressed, with the oplog that was written meanwhile."""
    first = scene.now()
    scene.settle()
    dump = scene.backup(name="dump")
    scene.settle()
    last, name = scene.now(), "2026-01-01T00:00:00Z"
    folder = scene.folder / "pbm" / name / scene.source.set_name
    (folder / "oplog").mkdir(parents=True)
    rows = []
    for file in sorted(dump.glob("*/*.metadata.json")):
        metadata = json.loads(file.read_text())
        collection = metadata["collectionName"]
        stored = file.with_name(file.name.replace(".metadata.json", ".bson"))
        if not stored.exists():
            stored = stored.with_name(f"system.buckets.{stored.name}")
        data = stored.read_bytes() if stored.exists() else b""
        if data:
            (folder / f"{file.parent.name}.{collection}").write_bytes(data)
        number = {key: {"$numberLong": str(value)} for key, value in (("size", len(data)), ("crc", crc64(data)))}
        what = {"db": file.parent.name, "collection": collection, "type": metadata.get("type", "collection")}
        rows.append(what | number | {"metadata": file.read_text()})
    (folder / "metadata.json").write_text(json.dumps({"namespaces": rows}))
    named = ".".join(f"{ts.time:%Y%m%d%H%M%S}-{ts.i}" for ts in (first, last))
    wanted = {"ts": {"$gte": Timestamp(first.t, first.i), "$lte": Timestamp(last.t, last.i)}}
    entries = scene.client.local.get_collection("oplog.rs", codec_options=RAW).find(wanted)
    (folder / "oplog" / named).write_bytes(b"".join(row.raw for row in entries))
    ends = {key: {"T": ts.t, "I": ts.i} for key, ts in (("first_write_ts", first), ("last_write_ts", last))}
    version = scene.client.server_info()["version"]
    note = {"name": name, "type": "logical", "status": "done", "compression": "none", "mongodb_version": version}
    note |= {"fcv": ".".join(version.split(".")[:2]), "replsets": [{"name": folder.name} | ends]} | ends
    (scene.folder / "pbm" / f"{name}.pbm.json").write_text(json.dumps(note))
    return scene.folder / "pbm" / name


def crc64(data: bytes) -> int:
    """The CRC-64 of the xz format, as its own encoder computes it."""
    if not data:
        return 0
    packed = lzma.compress(data, check=lzma.CHECK_CRC64, preset=0)
    after = 12 + 4 * (1 + int.from_bytes(packed[-8:-4], "little"))
    return int.from_bytes(packed[-after - 8 : -after], "little")


def copy_of_data(scene: Scene) -> tuple[Path, Ts]:
    """A copy of the data files of the live set, taken while it may not write, and the end of the copy's oplog."""
    copy, data = scene.folder / "snapshot", scene.source.members[0].folder / "data"
    scene.client.admin.command({"fsync": 1, "lock": True})
    try:
        # What is left out is the lock, and space that is reserved for the journal.
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("mongod.lock", "WiredTigerPreplog.*"))
        return copy, scene.now()
    finally:
        scene.client.admin.command("fsyncUnlock")


def pack(copy: Path) -> Path:
    """Pack a copy of data files into one compressed tar file."""
    packed = copy.with_suffix(".tar.gz")
    with tarfile.open(packed, "w:gz", compresslevel=1) as tar:
        tar.add(copy, "tally")
    return packed


@contextmanager
def start_copy(backup: Path, folder: Path) -> Iterator[int]:
    """Run the script for data files; yields the port of the server on the copy."""
    port, start = free_port(), folder / "start.sh"
    start.write_text(start_script(backup, port))
    environment = {"PATH": f"{Path(find_mongod(None)).parent}:/usr/bin:/bin"}
    subprocess.run(["bash", start], cwd=folder, env=environment, check=True)
    try:
        yield port
    finally:
        subprocess.run(["bash", start, "stop"], cwd=folder, env=environment, check=True)


def blocks(plan: Plan) -> list[str]:
    """The checks that block, in words."""
    return [f"{check.id}: {check.title}" for check in plan.checks if check.level is Level.BLOCK]


def ids(plan: Plan, level: Level = Level.BLOCK) -> set[str]:
    """The ids of the checks at a level."""
    return {check.id for check in plan.checks if check.level is level}


def same(found: State, wanted: State) -> None:
    """Compare two states, and say the first difference."""
    assert sorted(found) == sorted(wanted)
    for ns, (kind, options, indexes, rows) in wanted.items():
        assert found[ns][0] == kind, ns
        assert found[ns][1] == options, ns
        assert found[ns][2] == indexes, ns
        assert len(found[ns][3]) == len(rows), ns
        assert found[ns][3] == rows, ns
