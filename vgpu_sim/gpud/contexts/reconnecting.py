"""Connects a gpud to workers that an earlier gpud started.

A worker's channel ends with the gpud that made it. So each worker is given a *reconnect socket*
too: a datagram socket that is bound in a directory which only gpud may enter. A later gpud makes a
new channel and sends the worker's end to that address. The worker can receive from the socket and
cannot send on it: it was shut down for writing, which cannot be undone.
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
    """Return where the reconnect socket of this name is bound. Raises ValueError for a path."""
    if len(name) != 2 * _NAME_BYTES or not set(name) <= set("0123456789abcdef"):
        raise ValueError(f"{name!r} does not name a reconnect socket")
    return run_dir / DIRECTORY_NAME / name


def offer(run_dir: Path, channel: socket.socket) -> Path | None:
    """Make a reconnect socket, send it to a new worker over its channel, return its address.

    None when it cannot be made; the worker is then one that cannot be reconnected.
    """
    path = address(run_dir, secrets.token_hex(_NAME_BYTES))
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
            made.bind(str(path))
            made.shutdown(socket.SHUT_WR)
            socket.send_fds(channel, [spawn.encode({"type": "reconnect"})], [made.fileno()])
    except OSError as err:
        logger.warning("worker_cannot_be_reconnected socket=%s error=%s", path, err)
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return path


def reconnect(path: Path) -> tuple[socket.socket, bool] | None:
    """Return a new channel to the worker that holds this socket; None if there is none any more.

    With it: whether descriptors are refused (``foreign``). That is settled before the worker has
    its end, or it could have sent one already, which would be closed on gpud's loop.
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


def remove_others(run_dir: Path, kept: set[Path]) -> None:
    """Remove the addresses of workers that are no more."""
    directory = run_dir / DIRECTORY_NAME
    for path in directory.iterdir() if directory.is_dir() else ():
        if path not in kept:
            path.unlink(missing_ok=True)
