"""A successor takes an hcad's fabric over: its clients notice nothing.

The successor connects to ``successor.sock`` in the fabric's folder and says which version of the
document it reads. The old hcad gives the answers that it has begun, holds its engine, and sends a
document and all descriptors. The successor makes everything again in an engine that is held, and
says that it is READY. Only the old one's GO lets it serve, and with GO the old one ends. Whatever
goes wrong before, the old one goes on as if nothing had been.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final, Never, Protocol

from hca.binding.engine import Engine
from hca.daemon.common.handover_state import Luggage, Row
from vgpu_sim.system import seqpacket
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.hcad")

SOCKET_NAME: Final = "successor.sock"
VERSION: Final = 3
SECONDS: Final = 10.0
"""How long the fabric stands still for a successor, at most, beside the making of the document."""
_BATCH: Final = 200  # descriptors in a message, below SCM_MAX_FD
_ASK, _READY, _GO = b"TAKE", b"READY", b"GO"
_MAX_WORD: Final = 256


class HandsOver(Protocol):
    """A fabric's server, or a node's."""

    async def pause(self) -> str: ...
    def resume(self) -> None: ...
    def save(self, luggage: Luggage) -> Row: ...
    def load(self, saved: Row, luggage: Luggage) -> Callable[[], None]: ...


class HandoverFailed(Exception):
    """Nothing was handed over; the message says why."""


def end() -> Never:
    """End at once, without touching anything that is the successor's."""
    os._exit(0)


async def offer(
    listener: socket.socket,
    server: HandsOver,
    engine: Engine,
    more: Callable[[Luggage], Row],
    leave: Callable[[], Never] = end,
) -> None:
    """Wait for successors; when one has taken over, ``leave``. ``more``: of the caller."""
    while True:
        await seqpacket.readable(listener.fileno())
        try:
            successor, _ = listener.accept()
        except OSError:
            continue
        with successor:
            successor.settimeout(SECONDS)
            try:
                await _hand_over(successor, server, engine, more, leave)
            except (OSError, HandoverFailed, MemoryError) as err:
                logger.warning("not handed over: %s", str(err) or "the successor is too slow")
                engine.release()
                server.resume()


async def _hand_over(
    successor: socket.socket,
    server: HandsOver,
    engine: Engine,
    more: Callable[[Luggage], Row],
    leave: Callable[[], Never],
) -> None:
    if peer_of(successor).uid != os.geteuid():
        raise HandoverFailed("the successor is another user's")
    asked = await _first_word(successor)
    if asked != _ASK + b" %d" % VERSION:
        successor.send(b"this hcad writes version %d" % VERSION)
        raise HandoverFailed(f"the successor asks for {asked!r}, and this is version {VERSION}")
    obstacle = await server.pause()
    if obstacle:
        successor.send(obstacle.encode())
        raise HandoverFailed(obstacle)
    engine.hold()
    # From here on nothing is awaited: no client is served until GO, or until this has failed.
    luggage = Luggage()
    document = {"version": VERSION, "server": server.save(luggage), **more(luggage)}
    _send(successor, document, luggage)
    if successor.recv(_MAX_WORD) != _READY:
        raise HandoverFailed("the successor has given up")
    successor.send(_GO)
    # All that this process has is the successor's now: a message that it reads would be lost, and
    # a file that it removes, missed.
    leave()


async def _first_word(successor: socket.socket) -> bytes:
    async with asyncio.timeout(SECONDS):
        await seqpacket.readable(successor.fileno())
    return successor.recv(_MAX_WORD)


def _send(successor: socket.socket, document: Row, luggage: Luggage) -> None:
    text = os.memfd_create("tessera-handover", os.MFD_CLOEXEC)
    try:
        with open(os.dup(text), "wb") as file:
            file.write(json.dumps(document).encode("ascii"))
        word = b"%d" % len(luggage.descriptors)
        socket.send_fds(successor, [word], [text])
        for first in range(0, len(luggage.descriptors), _BATCH):
            socket.send_fds(successor, [b"+"], luggage.descriptors[first : first + _BATCH])
    finally:
        os.close(text)


def ask(directory: Path) -> tuple[socket.socket, Row, Luggage]:
    """Take a predecessor's document and descriptors. Raises HandoverFailed, OSError."""
    predecessor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    luggage = Luggage()
    try:
        predecessor.settimeout(2 * SECONDS)
        predecessor.connect(str(directory / SOCKET_NAME))
        predecessor.send(_ASK + b" %d" % VERSION)
        word, (text, *_), _flags, _address = _one(predecessor)
        count = int(word)
        with open(text, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            document = json.loads(os.pread(file.fileno(), size, 0))
        while len(luggage.descriptors) < count:
            luggage.descriptors += _one(predecessor)[1]
    except ValueError as err:
        predecessor.close()
        raise HandoverFailed(f"the predecessor refuses: {err}") from err
    except BaseException:
        predecessor.close()
        raise
    return predecessor, document, luggage


def _one(predecessor: socket.socket) -> tuple[bytes, list[int], int, object]:
    word, descriptors, flags, address = socket.recv_fds(
        predecessor, _MAX_WORD, seqpacket.SCM_MAX_FD
    )
    if not descriptors:
        raise HandoverFailed(f"the predecessor says {word.decode(errors='replace')!r}")
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return word, descriptors, flags, address


def accept(
    predecessor: socket.socket, document: Row, luggage: Luggage, server: HandsOver
) -> Callable[[], None]:
    """Make everything again, and wait for the predecessor's word; return what begins to serve.

    Raises:
        HandoverFailed: the document makes no sense, or the predecessor has changed its mind.
        OSError: a resource is missing.
    """
    if document.get("version") != VERSION:
        raise HandoverFailed(f"a document of version {document.get('version')!r}")
    try:
        serve = server.load(document["server"], luggage)
    except (ValueError, KeyError, TypeError) as err:
        raise HandoverFailed(f"the document makes no sense: {err!r}") from err
    predecessor.send(_READY)
    if predecessor.recv(_MAX_WORD) != _GO:
        raise HandoverFailed("the predecessor goes on itself")
    predecessor.close()
    return serve
