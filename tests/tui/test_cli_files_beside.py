"""Files that a command writes beside its answer: that they cannot be written costs nobody the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bson import Timestamp, encode
from click.testing import CliRunner

from tallyglass.restore.drill.report import Report
from tallyglass_tui.cli.restore.drill_made import hand_over
from tallyglass_tui.cli.restore.window import window

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="a device that is always full is a thing of Linux")


@pytest.mark.parametrize("name", ["report.json", "report.md"])
def test_a_drill_prints_its_result_and_writes_what_can_be_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Report("2026-11-22T08:55:07Z", "block", "rs0", "d1", "/b", "A collection differs.")
    metrics = tmp_path / "drill.prom"
    assert hand_over(made, tmp_path / "gone" / name, metrics, wants_json=False) == 2
    written = capsys.readouterr()
    assert written.out == "DRILL CRITICAL - A collection differs.\n"
    assert "cannot be written" in written.err
    assert "tallyglass_restore_drill_status" in metrics.read_text()


@needs_full
def test_the_window_is_printed_though_its_metrics_cannot_be_written(tmp_path: Path) -> None:
    entry = {"ts": Timestamp(9, 1), "op": "n", "ns": "", "o": {}}
    (tmp_path / "daily" / "shop").mkdir(parents=True)
    (tmp_path / "daily" / "shop" / "a.bson").touch()
    (tmp_path / "daily" / "shop" / "a.metadata.json").write_text('{"indexes": [], "collectionName": "a"}')
    (tmp_path / "daily" / "oplog.bson").write_bytes(encode(entry))
    run = CliRunner().invoke(window, [f"--backups={tmp_path}", f"--metrics={FULL}"], standalone_mode=False)
    assert run.stdout.startswith("WINDOW CRITICAL - nothing can be restored")
    assert "/dev/full cannot be written" in run.stderr


def test_the_window_asks_for_what_metrics_need_before_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    run = CliRunner().invoke(window, [f"--backups={tmp_path}", f"--metrics={tmp_path / 'm'}"], standalone_mode=False)
    assert run.stdout.startswith("WINDOW UNKNOWN - Metrics need the package prometheus-client")
