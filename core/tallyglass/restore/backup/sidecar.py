"""The sidecar that ``restore prepare`` writes beside a backup or into it: the oplog position from before it began."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import parse_ts
from tallyglass.restore.backup.backup import Anchor, Contents
from tallyglass.text import clean

SIDECAR = "pitr.json"
SIDECAR_FORMAT = 1
"""The format version of the sidecar."""


def with_sidecar(found: Contents, path: Path) -> Contents:
    """The backup with what the sidecar beside it or in it records."""
    for file in (path / SIDECAR, path.parent / f"{path.name}.{SIDECAR}"):
        if file.is_file():
            break
    else:
        return found
    try:
        content = json.loads(file.read_text())
        if content["format"] != SIDECAR_FORMAT:
            problem = f"{SIDECAR} is of format {clean(str(content['format']), 20)}, not {SIDECAR_FORMAT}"
            return replace(found, problems=(*found.problems, problem))
        start = parse_ts(content["before"])
        after = parse_ts(content["after"]) if content.get("after") else None
        term = int(content["term"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, InputError):
        return replace(found, problems=(*found.problems, f"{SIDECAR} cannot be read"))
    # A later dump into the same folder ended after what an earlier one's sidecar records.
    end = max((one for one in (after, found.backup.end) if one is not None), default=None)
    own = found.backup.start
    late = own is not None and own < start
    backup = replace(
        found.backup,
        start=own if late else start,
        end=end,
        source=found.backup.source if late else "sidecar",
        server_version=found.backup.server_version or clean(str(content.get("server_version", ""))),
    )
    return replace(
        found,
        backup=backup,
        fcv=clean(str(content.get("fcv", ""))),
        set_name=clean(str(content.get("set_name", ""))),
        anchors=(*found.anchors, Anchor(start, term or None)),
        late_sidecar=start if late else None,
    )
