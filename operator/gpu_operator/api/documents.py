"""What the API server sends, read: JSON of which some parts are whatever a user wrote.

Most of an object has a schema. Opaque parameters of a ResourceClaim are kept as they were sent, and
Go reads ten thousand levels of nesting where Python's reader raises RecursionError: anybody who may
write claims could end whoever lists them.
"""

import json
import re
from typing import Any, Final

DEEPEST: Final = 128
"""Levels that are read of what Python does not read as a whole; no schema has as many."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def read(text: bytes | str) -> Any:
    """Read JSON; where it is nested too deeply, null stands for what lies below ``DEEPEST``.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_cut(text.encode() if isinstance(text, str) else text))


def _cut(text: bytes) -> bytes:
    """Return a document without what is nested more deeply than is read. Never recurses.

    Raises:
        ValueError: its brackets do not match.
    """
    kept: list[bytes] = []
    depth, start = 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                kept += (text[start : token.start()], b"null")
        elif token[0] in b"]}":
            depth -= 1
            if depth == DEEPEST:
                start = token.end()
    if depth:
        raise ValueError("JSON that is nested too deeply, and cut short")
    return b"".join([*kept, text[start:]])
