"""How this program is called again, for its own use and in what it prints."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def this_program() -> tuple[str, ...]:
    """The command line that starts this program again, also in a single-file build."""
    own = Path(sys.argv[0]).absolute()
    installed = own.name.startswith("tallyglass") and own.is_file() and os.access(own, os.X_OK)
    return (str(own),) if installed else (sys.executable, "-m", "tallyglass_tui")
