"""Parsing of JSON from the API server, parts of which users control.

Most of an object has a schema. The API server keeps opaque parameters of a ResourceClaim as they
were sent, and accepts ten thousand levels of nesting, for which Python's parser raises
RecursionError. Without a limit, a user who may write claims could crash every process that lists
them.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

DEEPEST: Final = 128
"""Nesting levels that ``read`` keeps of a document too deep for Python's parser; every schema has
fewer.
"""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def read(text: bytes | str) -> Any:
    """Parse JSON.

    If the document is nested too deeply for Python's parser, values below level ``DEEPEST`` are
    replaced by null.

    Raises:
        ValueError: the text is not JSON.
    """
    return _read(text, None)


def read_in_steps(text: bytes) -> Any:
    """Parse JSON as ``read`` does, in a thread beside an event loop.

    Without a hook, Python's parser keeps the interpreter's lock until it has parsed the whole text.
    Python releases the lock at the calls of the hook when another thread waits for it.
    """
    return _read(text, lambda value: value)


def _read(text: bytes | str, hook: Callable[[Any], Any] | None) -> Any:
    try:
        return json.loads(text, object_hook=hook)
    except RecursionError:
        cut = _cut(text.encode() if isinstance(text, str) else text)
        return json.loads(cut, object_hook=hook)


def _cut(text: bytes) -> bytes:
    """Return the document with null in place of values nested below ``DEEPEST``.

    The function never recurses.

    Raises:
        ValueError: the brackets do not match.
    """
    kept_parts: list[bytes] = []
    depth, start = 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                kept_parts += (text[start : token.start()], b"null")
        elif token[0] in b"]}":
            depth -= 1
            if depth == DEEPEST:
                start = token.end()
    if depth:
        raise ValueError("JSON is nested too deeply and truncated")
    return b"".join([*kept_parts, text[start:]])
