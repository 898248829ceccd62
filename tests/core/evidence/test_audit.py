"""Audit logs: MongoDB's, Percona's and DocumentDB's forms; a line makes an account possible, a session certain."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tallyglass.evidence.audit import AuditReader
from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Definition, user_of
from tallyglass.evidence.log_files import files_of, read_files

DROP = (
    '{"atype":"dropCollection","ts":{"$date":"2021-08-09T13:45:00.661+00:00"},"uuid":{"$binary":"0gle4/pSQli+LUcz43ykag'
    '==","$type":"04"},"local":{"ip":"127.0.0.1","port":27502},"remote":{"ip":"127.0.0.1","port":51928},"users":[{"user'
    '":"ann","db":"admin"}],"roles":[],"param":{"ns":"sales.inventory"},"result":0}'
)
PERCONA = (
    '{ "atype" : "dropDatabase", "ts" : { "$date" : "2026-06-16T14:32:08.456+0000" }, "local" : { "ip" : "10.0.5.22", '
    '"port" : 27017 }, "remote" : { "ip" : "10.0.8.1", "port" : 49152 }, "users" : [ { "user" : "bob", "db" : "admin" '
    '} ], "roles" : [ ], "param" : { "ns" : "sales" }, "result" : 0 }'
)
SESSION = "P6RCGz9ZS4iWBSSHWXW15A=="
DOCUMENTDB = (
    '{"atype":"authCheck","ts":1746473479983,"timestamp_utc":"2025-05-05 19:31:19.983","remote_ip":"127.0.0.1:47022",'
    '"users":[{"user":"serviceadmin","db":"test"}],"param":{"command":"delete","ns":"test.col","args":{"delete":"col",'
    '"deletes":[{"q":{"_id":1},"limit":0}],"lsid":{"id":{"$binary":"' + SESSION + '","$type":"4"}},"txnNumber":5}}}'
)


def read(*lines: str) -> Book:
    book = Book()
    AuditReader(book).feed(lines)
    return book


def changed(line: str, **more: Any) -> str:
    return json.dumps(json.loads(line) | more, separators=(",", ":"))


def definitions(book: Book) -> list[Definition]:
    return book.definitions(frozenset({"drop", "dropDatabase", "rename", "users", "dropIndexes"}), 0, 10**14)


def test_definitions_of_mongodb_and_percona() -> None:
    rename = changed(DROP, atype="renameCollection", param={"old": "sales.a", "new": "sales.b"})
    user = changed(DROP, atype="createUser", param={"user": "eve", "db": "admin"})
    found = definitions(read(DROP, PERCONA, rename, user))
    assert [(one.name, one.ns, one.client.user, one.client.address, one.at) for one in found[::3]] == [
        ("drop", "sales.inventory", "ann@admin", "127.0.0.1:51928", 1628516700661),
        ("dropDatabase", "sales", "bob@admin", "10.0.8.1:49152", 1781620328456),
    ]
    assert [one.text for one in found[1:3]] == ["rename sales.a sales.b", "createUser(eve)"]


def test_what_failed_or_was_replicated_is_no_ones() -> None:
    assert definitions(read(changed(DROP, result=26), changed(DROP, local={"isSystemUser": True}))) == []


def test_the_application_is_that_of_the_same_address() -> None:
    metadata = {"application": {"name": "nightly"}, "driver": {"name": "PyMongo", "version": "4.9"}}
    said = changed(DROP, atype="clientMetadata", users=[], param={"clientMetadata": metadata})
    other = changed(DROP, remote={"ip": "127.0.0.1", "port": 1})
    found = definitions(read(said, DROP, other))
    assert [(one.client.application, one.client.driver) for one in found] == [("nightly", "PyMongo 4.9"), ("", "")]


def test_a_delete_of_documentdb_names_its_session_and_never_a_count() -> None:
    book = read(DOCUMENTDB)
    (found,) = book.statements("test.col", "d", 0, 10**14)
    assert (found.documents, found.ids, found.in_session) == (None, {1}, True)
    sender = book.sender(found.session, 5)
    assert sender is not None
    assert sender.user == "serviceadmin@test"
    assert book.users.get(user_of("serviceadmin", "test")[1]) == "serviceadmin@test"
    plain = json.loads(DOCUMENTDB)
    del plain["param"]["args"]["txnNumber"]
    (found,) = read(json.dumps(plain)).statements("test.col", "d", 0, 10**14)
    assert (found.in_session, found.text) == (None, "delete({_id: 1})")


def test_a_delete_of_all_is_shown_and_a_collation_may_find_another_id() -> None:
    def audited(*deletes: object) -> Any:
        line = json.loads(DOCUMENTDB)
        line["param"]["args"]["deletes"] = deletes
        return read(json.dumps(line)).statements("test.col", "d", 0, 10**14)

    collated = {"q": {"_id": "a"}, "limit": 0, "collation": {"locale": "en", "strength": 2}}
    found = audited({"q": {}, "limit": 0}, {"q": {"_id": "a"}, "limit": 0}, collated, 7)
    assert [(one.text, one.ids) for one in found] == [
        ("delete({})", None), ("delete({_id: 'a'})", {"a"}), ("delete({_id: 'a'})", None), ("", None),
    ]  # fmt: skip


def test_redacted_cut_and_foreign_lines() -> None:
    hidden = DOCUMENTDB.replace('{"_id":1}', '{"_id":"###"}')
    dates = (changed(DROP, ts=at) for at in ({"$date": "yesterday"}, 10**15))
    book = read(hidden, DROP[:90], '{"atype":"x"}', *dates, changed(DROP, users=[7]))
    (found,) = book.statements("test.col", "d", 0, 10**14)
    assert (found.text, found.ids) == ("", None)
    assert (book.tally.lines, book.tally.redacted, book.tally.cut, definitions(book)) == (6, 1, 5, [])


def test_hostile_text_is_made_visible() -> None:
    esc = "\x1b[2J\u202e"
    hostile = changed(DROP, users=[{"user": esc, "db": "admin"}], param={"ns": f"sales.{esc}"})
    (found,) = definitions(read(hostile))
    assert f"{found.client}{found.text}{found.ns}".isprintable()


def test_an_audit_log_is_known_by_its_lines_not_its_name(tmp_path: Path) -> None:
    (tmp_path / "auditLog.json").write_text(DROP + "\n")
    (tmp_path / "auditLog.json.1.gz").write_bytes(gzip.compress(PERCONA.encode()))
    for named in (tmp_path, tmp_path / "auditLog.json"):
        book = Book()
        assert read_files(book, files_of(named)) == {}
        assert {one.client.user for one in definitions(book)} == {"ann@admin", "bob@admin"}
        assert book.coverage == {}
