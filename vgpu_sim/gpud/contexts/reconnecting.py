"""Reconnects gpud to workers that an earlier gpud started.

A worker's channel ends with the gpud that created it. Each worker therefore also gets a
*reconnect socket*: a datagram socket bound in a directory that only gpud may enter. A later gpud
creates a channel and sends the worker's end of it to the reconnect socket's address. The worker
can receive from the socket but not send on it, because the socket was irrevocably shut down for
writing.
"""

import logging
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from vgpu_sim.hal.compute import spawn
from vgpu_sim.system import foreign, seqpacket

logger = logging.getLogger("tessera.gpud")

DIRECTORY_NAME = "workers"
_NAME_BYTES = 8


def address(run_dir: Path, name: str) -> Path:
    """Return the path of the reconnect socket ``name``. Raises ValueError if it contains a
    slash.
    """
    if len(name) != 2 * _NAME_BYTES or not set(name) <= set("0123456789abcdef"):
        raise ValueError(f"{name!r} does not name a reconnect socket")
    return run_dir / DIRECTORY_NAME / name


def offer(run_dir: Path, channel: socket.socket) -> Path | None:
    """Create a reconnect socket, send it to a new worker over the worker's channel, and return the
    socket's path.

    Returns None if that fails; no later gpud can then reconnect to the worker.
    """
    path = address(run_dir, secrets.token_hex(_NAME_BYTES))
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as endpoint:
            endpoint.bind(str(path))
            endpoint.shutdown(socket.SHUT_WR)
            socket.send_fds(channel, [spawn.encode({"type": "reconnect"})], [endpoint.fileno()])
    except OSError as err:
        logger.warning("worker_cannot_be_reconnected socket=%s error=%s", path, err)
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return path


def reconnect(path: Path) -> tuple[socket.socket, bool] | None:
    """Return a new channel to the worker that holds this socket, and whether the channel refuses
    descriptors (see ``foreign``). Return None if the worker has ended.

    The channel is set to refuse descriptors before the worker receives the other end. Otherwise
    the worker could already have sent a descriptor, which gpud's event loop would have to close.
    """
    mine, its = seqpacket.pair()
    refusing = foreign.refuse_descriptors(mine)
    with its, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.connect(str(path))
            socket.send_fds(sender, [spawn.encode({"type": "channel"})], [its.fileno()])
        except OSError as err:
            logger.warning("worker_not_reconnected socket=%s error=%s", path.name, err)
            mine.close()
            return None
    mine.setblocking(False)
    return mine, refusing


def remove_others(run_dir: Path, kept_paths: set[Path]) -> None:
    """Remove the reconnect sockets whose paths are not in ``kept_paths``: those of ended
    workers.
    """
    directory = run_dir / DIRECTORY_NAME
    for path in directory.iterdir() if directory.is_dir() else ():
        if path not in kept_paths:
            path.unlink(missing_ok=True)
