"""A script is written once, for its owner alone."""

from __future__ import annotations

import os
from pathlib import Path

from tallyglass.text import clean


def write_new(path: Path, text: str) -> str:
    """Write a new file that its owner alone may read and run; an existing one is left alone. What to tell the user."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return f"Nothing was written: there is already {clean(str(path), 200)}"
    except OSError as error:
        return f"Not written ({error.strerror}): {clean(str(path), 200)}"
    return f"Written with mode 0700: {clean(str(path), 200)}"
