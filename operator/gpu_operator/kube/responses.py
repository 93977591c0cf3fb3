"""Parsing of what the API server sends. Large texts are parsed in a thread.

An object may be as large as the API server lets it be, and an editor may change it several times a
second.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

from gpu_operator.api import documents

LARGEST_ON_LOOP: Final = 64 << 10
"""Bytes of the largest text that is parsed on the event loop, which takes a few milliseconds."""


async def parse(text: bytes) -> Any:
    """Parse JSON. Raises ValueError if the text is not JSON."""
    if len(text) <= LARGEST_ON_LOOP:
        return documents.read(text)
    return await asyncio.to_thread(documents.read_in_steps, text)


async def parse_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[Any]:
    """Yield the values of a stream in which each line is JSON. Lines may be of any length."""
    parts: list[bytes] = []  # joined once: a line has hundreds of chunks
    async for chunk in chunks:
        *ends, tail = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            parts.clear()
            if line:
                yield await parse(line)
        if tail:
            parts.append(tail)
