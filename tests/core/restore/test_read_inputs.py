"""What was named of a restore: the servers as the tools reach them, and the spare as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, DIRECTORY, PBM, Contents
from tallyglass.restore.model.source import Backup, FromBackup, FromImages
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.proof import oplog_query, read_inputs
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.proof.progress import Step, reporter
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.spare import Spare
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.tools import toolset

SET = Deployment(Kind.REPLICA_SET, "6.0.5", set_name="rs")
REQUEST = RestoreRequest(Path("/b"), "mongodb://h:1/", before=Ts(9, 1))


class Gateway:
    closed = 0

    async def close(self) -> None:
        Gateway.closed += 1


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the servers and the backup are; the addresses that were asked are added."""
    found: dict[str, Any] = {"set": SET, "spare": Spare("s:2"), "form": DIRECTORY, "asked": [], "refused": ""}

    async def deployment(_: Any) -> Deployment:
        return found["set"]  # type: ignore[no-any-return]

    async def inspect(_: Any, address: str) -> Spare:
        found["asked"].append(address)
        return found["spare"]  # type: ignore[no-any-return]

    async def running(_: Any, contents: Contents) -> Contents:
        return replace(contents, fcv="read from the spare")

    def open_gateway(uri: str, **_: Any) -> Any:
        found["asked"].append(uri)
        if found["refused"]:
            raise InputError(found["refused"])
        return Gateway()

    for name, value in (
        ("look_at", deployment), ("inspect_spare", inspect), ("read_running", running), ("open_gateway", open_gateway),
        ("read_backup", lambda path, start: Contents(Backup(path, found["form"], False, start, None, "given"))),
    ):  # fmt: skip
        monkeypatch.setattr(read_inputs, name, value)
    monkeypatch.setattr(toolset, "installed", lambda: None)
    monkeypatch.setattr(own_spare, "free_port", lambda: 27_118)
    Gateway.closed = 0
    return found


async def read(**more: Any) -> Inputs:
    return await read_inputs.read_inputs(Gateway(), replace(REQUEST, **more))  # type: ignore[arg-type]


async def test_a_restore_without_a_spare_starts_one_of_its_own(world: dict[str, Any]) -> None:
    found = await read(backup_start=Ts(5, 1))
    assert (found.own_spare, found.spare, found.uri_trouble, world["asked"]) == (27_118, None, "", [])
    assert found.spare_uri is not None
    assert found.spare_uri.hosts == ("127.0.0.1:27118",)
    assert found.source_uri is not None
    assert "replicaSet=rs" in found.source_uri.text
    assert (found.limit, found.deployment, found.contents.backup.start) == (Ts(9, 1), SET, Ts(5, 1))
    assert (await read(own_spare_port=5)).own_spare == 5
    with pytest.raises(InputError, match="No backup is named"):
        await read(backup=None)


@pytest.mark.parametrize("more", [{"spare": "s:2"}, {"spare_uri": "mongodb://s:2/?directConnection=true"}])
async def test_a_spare_that_was_named_is_looked_at(world: dict[str, Any], more: dict[str, str]) -> None:
    found = await read(**more)
    assert (found.own_spare, found.spare, found.contents.fcv) == (0, Spare("s:2"), "")
    assert world["asked"] == ["mongodb://s:2/?directConnection=true", "s:2"]
    assert Gateway.closed == 1
    assert found.spare_uri is not None
    assert "replicaSet" not in found.spare_uri.text
    world["spare"] = Spare("s:2", set_name="other")
    of_a_set = (await read(spare_uri="mongodb://s:2/")).spare_uri
    assert of_a_set is not None
    assert "replicaSet=other" in of_a_set.text


@pytest.mark.parametrize(
    ("form", "trouble", "fcv"), [(DATA_FILES, "", "read from the spare"), (DATA_FILES, "It does not answer.", "")]
)
async def test_data_files_are_read_from_the_spare_that_runs_on_them(
    world: dict[str, Any], form: str, trouble: str, fcv: str
) -> None:
    world |= {"form": form, "spare": Spare("s:2", trouble=trouble)}
    assert (await read(spare="s:2")).contents.fcv == fcv
    unnamed = await read()
    assert (unnamed.own_spare, unnamed.spare, unnamed.spare_uri) == (0, None, None), "only a person can start it"


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"source_uri": "mongodb://h:1/?tls=ture", "spare": "s:2"}, 0),
        ({"spare_uri": "mongodb://s:2/?tls=ture"}, 0),
    ],
)
async def test_a_uri_that_cannot_be_used_is_named(world: dict[str, Any], more: dict[str, str], asked: int) -> None:
    found = await read(**more)
    assert found.uri_trouble
    assert (found.spare, len(world["asked"])) == (None, asked)


INCIDENT = Incident(1, "drop", "drop", "s.c", Harm.LOSS, Ts(5, 1), Ts(6, 1), None, None, 1, None)


def test_what_a_request_asks_for() -> None:
    named = replace(REQUEST, before=None, incident=INCIDENT)
    assert (REQUEST.limit, named.limit, named.named_incident) == (Ts(9, 1), INCIDENT.limit, INCIDENT)
    for read in (lambda: replace(REQUEST, before=None).limit, lambda: REQUEST.named_incident):
        with pytest.raises(InputError):
            read()
    only_from_backup = (
        REQUEST, replace(named, choice=Choice("s.c", "s.d")), replace(named, spare="s:2"),
        replace(named, spare_uri="mongodb://s:2/"), replace(named, oplog=Path("/o")),
    )  # fmt: skip
    assert [one.only_from_backup for one in (named, *only_from_backup)] == [False, True, True, True, True, True]
    assert replace(REQUEST, spare="s:2").full_spare_uri == "mongodb://s:2/?directConnection=true"
    assert replace(REQUEST, spare="s:2", spare_uri="mongodb://t:3/").full_spare_uri == "mongodb://t:3/"


@pytest.mark.parametrize(
    ("at", "start", "end", "share"),
    [(50, 0, 100, 0.5), (0, 0, 100, 0), (150, 100, 120, 1), (90, 100, 120, 0), (5, 5, 5, 0), (6, 5, 5, 1)],
)
def test_how_far_a_proof_is(at: int, start: int, end: int, share: float) -> None:
    assert Step(1, Ts(at, 9), Ts(start, 1), Ts(end, 5)).share == share
    told: list[Step] = []
    report = reporter(told.append, Start(Ts(start, 1), 0, Ts(0, 1), Ts(end, 5)))
    assert report is not None
    report(7, Ts(at, 9))
    assert told == [Step(7, Ts(at, 9), Ts(start, 1), Ts(end, 5))]
    assert reporter(None, Start(Ts(start, 1), 0, Ts(0, 1), Ts(end, 5))) is None


def test_where_documents_lie() -> None:
    backup = Backup(Path("/b"), DIRECTORY, False, None, None, "oplog")
    for form, is_dump in ((DIRECTORY, True), (ARCHIVE, True), (PBM, False), (DATA_FILES, False)):
        assert Contents(replace(backup, form=form)).is_dump is is_dump
    assert [replace(backup, source=one).exact for one in ("sidecar", "note", "oplog", "given", "file times")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    images, both = FromImages(5), FromImages(5, backup)
    assert (images.path, images.form) == (Path("config.system.preimages"), "pre-images")
    assert (both.path, both.form) == (Path("/b"), DIRECTORY)
    assert (FromBackup(backup, "").path, FromBackup(backup, "").form) == (Path("/b"), DIRECTORY)
    saved = oplog_query.rest_query(Ts(5, 1), Ts(9, 2))
    assert saved == '{"ts":{"$gte":{"$timestamp":{"t":5,"i":1}},"$lte":{"$timestamp":{"t":9,"i":2}}}}'


async def test_a_spare_that_cannot_be_asked_is_named(world: dict[str, Any]) -> None:
    world["refused"] = "No such file."
    found = await read(spare="s:2")
    assert (found.uri_trouble, found.spare, Gateway.closed) == ("No such file.", None, 0)


@pytest.mark.parametrize("source", [replace(SET, sharded=True), Deployment(Kind.STANDALONE, "6.0.5")])
async def test_nothing_more_is_read_where_there_is_no_oplog(world: dict[str, Any], source: Deployment) -> None:
    world["set"] = source
    found = await read(spare="s:2")
    assert (found.deployment, found.source_uri, found.spare_uri, world["asked"]) == (source, None, None, [])
