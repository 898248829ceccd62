"""Find the MongoDB Database Tools and mongosh: those built by ``make tools``, otherwise those on PATH."""

from __future__ import annotations

import shutil
from pathlib import Path

_NAMES = ("mongodump", "mongorestore", "mongosh")
_BUILT = Path(__file__).resolve().parent.parent / ".tools" / "bin"


def search_path() -> str:
    """Return a PATH with the folders that hold them, or an empty text if one is missing."""
    if all((_BUILT / name).exists() for name in _NAMES):
        found = [str(_BUILT / name) for name in _NAMES]
    else:
        found = [where for name in _NAMES if (where := shutil.which(name))]
    node = shutil.which("node")  # a packaged mongosh does not need it
    folders = dict.fromkeys(str(Path(where).parent) for where in (*found, *([node] if node else [])))
    return ":".join(folders) if len(found) == len(_NAMES) else ""
