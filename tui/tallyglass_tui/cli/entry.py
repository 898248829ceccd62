"""Where the process begins. Ctrl-C while the rest is being imported ends it as it does later: without a trace."""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> None:
    """Import the command line and run it."""
    try:
        from tallyglass_tui.cli.main import main as command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    command()
