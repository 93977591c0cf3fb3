"""Paths of UNIX sockets: their limit, and whether a process listens at one."""

import socket
from pathlib import Path
from typing import Final

MAX_PATH_BYTES: Final = 107  # sizeof(sockaddr_un.sun_path) - 1


def is_served(path: Path, kind: socket.SocketKind) -> bool:
    """Return whether a process listens at a path, on a socket of a kind such as SOCK_STREAM."""
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except BlockingIOError:  # its backlog is full
            return True
        except OSError:
            return False
    return True
