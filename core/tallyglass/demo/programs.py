"""The programs that a demo brings: a restore that is planned in it finds them, and its steps do too."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tallyglass.restore.tools.find_mongod import find_mongod

_BUILT = Path(__file__).resolve().parents[3] / ".tools" / "bin"
"""Where ``make tools`` puts the database tools and mongosh, in a checkout."""


def put_on_path(mongod: str | None = None) -> None:
    """Add the folders of the demo's mongod, of this tallyglass and of the tools that a checkout has built to PATH of
    this process and what it starts. Raises EmbeddedServerError if there is no mongod."""
    server = find_mongod(mongod)
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    after = [str(folder) for folder in (Path(sys.executable).parent, _BUILT) if folder.is_dir()]
    on_path = shutil.which("mongod")
    # What restores its data must be of its version, whichever other one is installed.
    first = [str(server.parent)] if on_path is None or Path(on_path).resolve() != server else []
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*first, *path, *after]))
