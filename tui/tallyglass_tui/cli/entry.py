"""The entry point. Ctrl-C during the imports ends the process as it does later: without a traceback."""

from __future__ import annotations

import sys

_INTERRUPTED = 130  # by the convention of shells: 128 and SIGINT. Imported from nowhere, so that nothing loads before.


def main() -> None:
    """Import the command line and run it."""
    try:
        from tallyglass_tui.cli.main import main as command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    command()
