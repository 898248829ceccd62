"""The largest number that the validator of a collection allows: the update that would pass it fails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tallyglass.counters.limits import INT32_MAX


def largest_valid(options: Mapping[str, Any], path: str) -> int | None:
    """The largest number at a path by the ``options`` of a collection, as listCollections returns them; None if any is
    valid. Understood are ``$jsonSchema``, and ``$lte``, ``$lt`` and ``$type`` of the path itself."""
    validator = options.get("validator")
    enforced = options.get("validationAction") != "warn" and options.get("validationLevel") != "off"
    if not isinstance(validator, Mapping) or not enforced:
        return None
    schema: object = validator.get("$jsonSchema")
    for name in path.split("."):
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        schema = properties.get(name) if isinstance(properties, Mapping) else None
    own = validator.get(path)
    limits = [limit for rule in (schema, own) if isinstance(rule, Mapping) for limit in _limits(rule)]
    return min(limits, default=None)


def _limits(rule: Mapping[str, Any]) -> Iterator[int]:
    for name, without in (("maximum", rule.get("exclusiveMaximum") is True), ("$lte", False), ("$lt", True)):
        limit = rule.get(name)
        if isinstance(limit, (int, float)) and math.isfinite(limit):
            yield math.ceil(limit) - 1 if without else math.floor(limit)
    for name in ("bsonType", "$type"):
        kinds = rule.get(name)
        if (kinds if isinstance(kinds, list) else [kinds]) in (["int"], [16]):
            # At 2^31 the server makes a long of it.
            yield INT32_MAX
