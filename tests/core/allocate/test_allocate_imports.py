"""The library stays light: an application with PyMongo alone never pays for Motor or the screen."""

from __future__ import annotations

import subprocess
import sys


def test_neither_motor_nor_the_screen_is_imported() -> None:
    code = "import sys, tallyglass.allocate; print(*(m for m in ('motor', 'textual', 'click') if m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
