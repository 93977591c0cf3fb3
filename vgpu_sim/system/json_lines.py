"""Messages of an administration socket as clients read them: one JSON object a line.

docs/gpud-admin.md describes the protocol. A daemon of another version, or a broken one, may send
anything: a client takes an object with a result or an error, and refuses the rest.
"""

import json
import socket
from collections.abc import Iterator
from typing import Any

MAX_LINE_BYTES = 4 << 20
_RECEIVED_BYTES = 65536
_SHOWN = 80  # characters of a message that is not understood


def read_lines(connection: socket.socket) -> Iterator[bytes]:
    """Yield lines without their end, until the peer closes the connection.

    Raises:
        OSError: the connection failed or timed out.
        ValueError: a line is longer than ``MAX_LINE_BYTES``.
    """
    buffer = b""
    while True:
        head, separator, rest = buffer.partition(b"\n")
        if separator:
            buffer = rest
            yield head
            continue
        if len(buffer) > MAX_LINE_BYTES:
            raise ValueError("a line without an end")
        data = connection.recv(_RECEIVED_BYTES)
        if not data:
            return
        buffer += data


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line. Raises ValueError where it is none."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError(f"not a JSON object: {line[:_SHOWN]!r}")
    return message


def check_reply(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply that has a result, or an error with its code and message.

    Raises:
        ValueError: the reply is neither.
    """
    match reply:
        case {"error": {"code": str(), "message": str()}}:
            return reply
        case {"result": dict()} if "error" not in reply:
            return reply
        case _:
            raise ValueError(f"neither a result nor an error: {str(reply)[:_SHOWN]}")
