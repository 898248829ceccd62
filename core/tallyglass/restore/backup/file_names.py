"""The names that mongodump gives the files of a collection."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import quote_plus, unquote, unquote_plus

_LONGEST_NAME = 238
"""Characters of an escaped collection name above which mongodump cuts it off and adds a hash."""
_KEPT = 208
"""Those that it keeps then: the hash takes the other 30."""


def file_stem(collection: str) -> str:
    """The file name, without extension, that mongodump gives a collection: form-encoded, and hashed if long."""
    escaped = quote_plus(collection)
    if len(escaped) <= _LONGEST_NAME:
        return escaped
    digest = hashlib.sha1(collection.encode(), usedforsecurity=False).digest()
    return f"{escaped[:_KEPT]}%24{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def full_name(stem: str, content: str) -> str:
    """The collection by a file name, and by the name in its metadata, which may be whole, encoded or not."""
    for one in (content, unquote_plus(content)):
        if file_stem(one) == stem:
            return one
    name = unquote_plus(stem)
    if not content or unquote(content) == name:
        return name
    return unquote(content) if "%24" in stem and len(stem) == _LONGEST_NAME else content
