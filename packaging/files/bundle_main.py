"""The program of the self-contained build."""

import os
import sys

from tallyglass_tui.cli.entry import main


def restore_library_path() -> None:
    """Start programs such as mongorestore with the library path of the user, not with that of the bundle."""
    original = os.environ.pop("LD_LIBRARY_PATH_ORIG", "")
    if os.environ.get("LD_LIBRARY_PATH") != getattr(sys, "_MEIPASS", None):
        return
    if original:
        os.environ["LD_LIBRARY_PATH"] = original
    else:
        del os.environ["LD_LIBRARY_PATH"]


restore_library_path()
main()
