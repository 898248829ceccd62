"""``tallyglass record`` on a real set: what the pages would show is in the file, and Ctrl-C ends it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tallyglass.connection.target import Target
from tallyglass.counters.snapshot import CountersSnapshot
from tallyglass.demo.server import ReplicaSet
from tallyglass.oplog.snapshot import IncidentScan
from tallyglass_tui.cli.record import follow_pages
from tallyglass_tui.recorded import KINDS
from tallyglass_tui.shell.recording import Recorder, Recording

pytestmark = pytest.mark.live

FEEDS = ("deployment", "counters", "oplog", "incidents", "last drill")


class Noting(Recorder):
    """Sets ``complete`` once each page has a value, the incidents all of theirs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "", KINDS)
        self.seen: set[str] = set()
        self.complete = threading.Event()

    def put(self, feed: str, subject: str, value: Any, merge: Any = None, **options: Any) -> None:
        """Record, and note what was."""
        super().put(feed, subject, value, merge, **options)
        if not (isinstance(value, IncidentScan) and not value.done):
            self.seen.add(feed)
        if self.seen.issuperset(FEEDS):
            self.complete.set()


def test_a_recording_holds_what_the_pages_show(tmp_path: Path) -> None:
    with ReplicaSet(1) as servers, servers.client() as client:
        client.shop.counters.insert_one({"_id": "orders", "seq": 90})
        client.shop.orders.insert_many([{"_id": n, "card": "secret-4111"} for n in range(200)])
        client.shop.orders.delete_many({})
        recorder = Noting(tmp_path / "r")
        feeds = follow_pages(Target.parse(servers.uri), recorder)
        try:
            assert recorder.complete.wait(120), recorder.seen
        finally:
            feeds.close()
            recorder.close()
        found = Recording(tmp_path / "r", KINDS)
        last = {name: found.value(name, "", found.places(name, "", -1, 10**9)[-1])[1] for name in FEEDS}
        assert isinstance(last["counters"], CountersSnapshot)
        assert [one.title for one in last["incidents"].incidents] == ["deleteMany on shop.orders"]
        assert last["deployment"].set_name == feeds.latest("deployment", type(last["deployment"])).set_name
        assert any(row.op == "d" for row in last["oplog"].rows)
        words = [sys.executable, "-m", "tallyglass_tui", "record", str(tmp_path / "c"), servers.uri]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert "Recording to" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            # So early there may be no value yet.
            assert re.search("replay shows it|holds nothing to replay", process.stderr.read())
        assert process.returncode in (0, 3)
