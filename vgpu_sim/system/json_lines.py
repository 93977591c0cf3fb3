"""The client side of an administration socket, which carries one JSON object per line.

docs/gpud-admin.md describes the protocol. A daemon of another version, or a broken one, may send
anything: a client accepts only an object with a result or an error.
"""

import json
import socket
from collections.abc import Iterator
from typing import Any

MAX_LINE_BYTES = 4 << 20
_RECEIVED_BYTES = 65536
_SHOWN = 80  # characters of an invalid message that an error shows


def read_lines(connection: socket.socket) -> Iterator[bytes]:
    """Yield lines without their end, until the peer closes the connection.

    Raises:
        OSError: the connection failed or timed out.
        ValueError: a line is longer than ``MAX_LINE_BYTES``.
    """
    buffer = b""
    while True:
        head, separator, buffer_tail = buffer.partition(b"\n")
        if separator:
            buffer = buffer_tail
            yield head
            continue
        if len(buffer) > MAX_LINE_BYTES:
            raise ValueError("a line is too long or not terminated")
        data = connection.recv(_RECEIVED_BYTES)
        if not data:
            return
        buffer += data


def decode_object(line: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object. Raises ValueError."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError(f"not a JSON object: {line[:_SHOWN]!r}")
    return message


def check_reply(reply: dict[str, Any]) -> dict[str, Any]:
    """Check that a reply has a result, or an error with its code and message; return the reply.

    Raises:
        ValueError: the reply has neither.
    """
    match reply:
        case {"error": {"code": str(), "message": str()}}:
            return reply
        case {"result": dict()} if "error" not in reply:
            return reply
        case _:
            raise ValueError(f"the reply has neither a result nor an error: {str(reply)[:_SHOWN]}")
