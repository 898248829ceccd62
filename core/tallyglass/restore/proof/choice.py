"""One namespace that is wanted as it was at the point, as a person types it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.extended_json import read_extended_json
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.proof.returns import LONGEST_NAMESPACE, can_be_made
from tallyglass.text import clean

_NAMESPACE = re.compile(r"""[^/\\ "$.]{1,63}\.[^$.][^$]*""")
"""What a server accepts as a name, with at most 63 characters for the database: it counts their bytes."""


def read_choice(only: str, target: str | None, ids: Iterable[str], point: Ts) -> Choice:
    """The choice of ``only`` under the name ``target``, else its name and the point. Raises InputError for a name that
    no collection has."""
    target = target or f"{only}_pitr_{point.time:%Y%m%dT%H%M%S}"
    for ns in (only, target):
        if not _NAMESPACE.fullmatch(ns) or len(ns.encode()) > LONGEST_NAMESPACE:
            raise InputError(f"'{clean(ns, 80)}' is not a collection.", "Write it as DATABASE.COLLECTION.")
    if not can_be_made(target):
        raise InputError(f"The server keeps '{clean(target, 80)}' for itself.", "Give another name with --as.")
    if only == target:
        raise InputError("--as names the collection itself.", "Give another name: the live collection is not touched.")
    return Choice(only, target, tuple(extended for one in ids for extended in _as_extended_json(one)))


def _as_extended_json(given: str) -> list[str]:
    """An ``_id`` as typed: Extended JSON, else a string; 24 hexadecimal digits are a string or an ObjectId. Raises
    InputError for JSON that stands for no value."""
    if re.fullmatch("[0-9a-fA-F]{24}", given):
        return [json.dumps(given), json.dumps({"$oid": given})]  # also those that are decimal, or look like 5e7
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        return [json.dumps(given)]
    try:
        read_extended_json(given)
        return [json.dumps(value, allow_nan=False)]  # Infinity is no JSON: the tools would refuse the query
    except ValueError:
        raise InputError(f"--id '{clean(given, 80)}' is no value.", "Write it as MongoDB Extended JSON.") from None
