"""Where a restore keeps its files, and the shell text that writes small ones. No secret is ever among them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tallyglass.text import shell_quote


@dataclass(frozen=True, slots=True)
class WorkDir:
    """Paths under the work directory, which is readable by its owner alone."""

    path: str

    def at(self, name: str) -> str:
        """A path inside it."""
        return f"{self.path}/{name}"

    def config(self, role: str) -> str:
        """The tools' ``--config`` file of ``source`` or ``spare``: the URI without its password."""
        return self.at(f"{role}.yml")

    def password(self, role: str) -> str:
        """Where the script keeps a password while it runs; removed at its end."""
        return self.at(f"{role}.password")

    @property
    def slice(self) -> str:
        """The oplog as mongodump wrote it."""
        return self.at("slice/local/oplog.rs.bson")

    @property
    def oplog(self) -> str:
        """The oplog as mongorestore reads it."""
        return self.at("oplog/oplog.bson")

    @property
    def base(self) -> str:
        """The staged copy of the backup."""
        return self.at("base")

    @property
    def log(self) -> str:
        """What mongorestore said."""
        return self.at("replay.log")

    @property
    def plan(self) -> str:
        """The plan, for the verification."""
        return self.at("plan.json")


def write(path: str, text: str) -> str:
    """Shell text that writes ``text`` and a line end into a file."""
    return f"printf '%s\\n' {shell_quote(text)} > {shell_quote(path)}"


def config_text(uri: str) -> str:
    """One line of YAML, read strictly by the tools: a JSON string is a YAML string."""
    return f"uri: {json.dumps(uri, ensure_ascii=True)}"


def chain(*parts: str) -> str:
    """Several commands on one line; each runs only where the one before it succeeded."""
    return " && ".join(part for part in parts if part)
