"""The MongoDB Database Tools and mongosh that the tests run: built by ``make tools``, else what is on PATH."""

from __future__ import annotations

import shutil
from pathlib import Path

_NAMES = ("mongodump", "mongorestore", "bsondump", "mongosh")
_BUILT = Path(__file__).resolve().parent.parent / ".tools" / "bin"


def search_path() -> str:
    """A PATH of the folders that hold them; empty where one of them is missing."""
    if all((_BUILT / name).exists() for name in _NAMES):
        found = [str(_BUILT / name) for name in _NAMES]
    else:
        found = [where for name in _NAMES if (where := shutil.which(name))]
    node = shutil.which("node")  # mongosh from a package needs none
    folders = dict.fromkeys(str(Path(where).parent) for where in (*found, *([node] if node else [])))
    return ":".join(folders) if len(found) == len(_NAMES) else ""
