"""The keys that ``keys.toml`` gives to actions."""

from __future__ import annotations

from pathlib import Path

from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.keymap import load_keymap


def test_a_file_may_name_the_keys_of_a_replay(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[keys]\n"replay.back" = "f5"\n')
    assert load_keymap(PAGES, file) == {"replay.back": "f5"}
