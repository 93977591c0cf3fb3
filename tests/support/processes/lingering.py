"""Descriptors whose last close takes seconds: TCP sockets that still have data to send."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator

LINGER_SECONDS = 60


@contextlib.contextmanager
def lingering_socket(seconds: int = LINGER_SECONDS) -> Iterator[socket.socket]:
    """A connected socket whose last close waits; pass it on, then close it here.

    Leaving this context releases waiting callers.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(65536))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        try:
            yield ours
        finally:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()  # a reset, which ends the wait
            ours.close()


def let_go(sent: socket.socket) -> None:
    """Close our copy of a socket that was passed on. If the receiver has closed its copy already,
    ours is the last and its close waits, so a thread closes it.
    """
    threading.Thread(target=os.close, args=(sent.detach(),)).start()
