"""Hand an hcad's clients and state over to a successor, without a change that clients notice.

The successor connects to ``successor.sock`` in the fabric's folder and sends the version of the
document that it can read. The old hcad finishes its pending replies, suspends its engine, and
sends a document and all descriptors. The successor restores everything in a suspended engine and
sends READY. The old hcad sends GO and ends; then the successor serves. If anything fails before
GO, the old hcad continues to serve.
"""

import asyncio
import json
import logging
import math
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Never, Protocol

from hca.binding.engine import Engine
from hca.daemon.common.handover_state import HandoverState, Row
from vgpu_sim.system import seqpacket
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.hcad")

SOCKET_NAME: Final = "successor.sock"
VERSION: Final = 3
SECONDS: Final = 10.0
"""Seconds that the fabric may pause for a successor, in addition to the time to write the
document.
"""
_BATCH: Final = 200  # descriptors in a message, below SCM_MAX_FD
_ASK, _READY, _GO = b"TAKE", b"READY", b"GO"
_MAX_WORD: Final = 256


class HandoverServer(Protocol):
    """The methods of a fabric's or a node's server that a handover calls."""

    async def pause(self) -> str: ...
    def resume(self) -> None: ...
    def save(self, handover_state: HandoverState) -> Row: ...
    def load(self, saved: Row, handover_state: HandoverState) -> Callable[[], None]: ...


class HandoverFailed(Exception):
    """The handover failed and nothing was handed over; the message states why."""


def exit_process() -> Never:
    """Exit the process at once, without a cleanup that would affect the successor's objects."""
    os._exit(0)


async def serve_successors(
    listener: socket.socket,
    server: HandoverServer,
    engine: Engine,
    extra_fields: Callable[[HandoverState], Row],
    leave: Callable[[], Never] = exit_process,
) -> None:
    """Wait for successors that connect to ``listener``, and hand the server over to one of them.

    The successor receives a document. The document contains the server's record and the fields
    of the object that ``extra_fields`` returns. ``leave`` is called after the handover.
    """
    while True:
        await seqpacket.wait_until_readable(listener.fileno())
        try:
            successor, _ = listener.accept()
        except OSError:
            continue
        with successor:
            successor.settimeout(SECONDS)
            try:
                await _hand_over(successor, server, engine, extra_fields, leave)
            except (OSError, HandoverFailed, MemoryError) as err:
                logger.warning("not handed over: %s", str(err) or "the successor is too slow")
                engine.resume()
                server.resume()


async def _hand_over(
    successor: socket.socket,
    server: HandoverServer,
    engine: Engine,
    extra_fields: Callable[[HandoverState], Row],
    leave: Callable[[], Never],
) -> None:
    if peer_of(successor).uid != os.geteuid():
        raise HandoverFailed("the successor runs as another user")
    first_word = await _first_word(successor)
    if first_word != _ASK + b" %d" % VERSION:
        successor.send(b"this hcad writes version %d" % VERSION)
        raise HandoverFailed(
            f"the successor requests {first_word!r}, but this hcad can write only version {VERSION}"
        )
    obstacle = await server.pause()
    if obstacle:
        successor.send(obstacle.encode())
        raise HandoverFailed(obstacle)
    suspended = time.monotonic()
    engine.suspend()
    # No await from here on: no client is served until GO has been sent or the handover has failed.
    handover_state = HandoverState()
    document = {
        "version": VERSION,
        "suspended": suspended,
        "server": server.save(handover_state),
        **extra_fields(handover_state),
    }
    _send(successor, document, handover_state)
    if successor.recv(_MAX_WORD) != _READY:
        raise HandoverFailed("the successor gave up before it took over")
    successor.send(_GO)
    # The successor now owns all objects of this process. If this process continued, it would
    # receive messages that the successor then misses, and could remove files that the successor
    # uses.
    leave()


async def _first_word(successor: socket.socket) -> bytes:
    async with asyncio.timeout(SECONDS):
        await seqpacket.wait_until_readable(successor.fileno())
    return successor.recv(_MAX_WORD)


def _send(successor: socket.socket, document: Row, handover_state: HandoverState) -> None:
    text = os.memfd_create("tessera-handover", os.MFD_CLOEXEC)
    try:
        with open(os.dup(text), "wb") as file:
            file.write(json.dumps(document).encode("ascii"))
        word = b"%d" % len(handover_state.descriptors)
        socket.send_fds(successor, [word], [text])
        for first in range(0, len(handover_state.descriptors), _BATCH):
            socket.send_fds(successor, [b"+"], handover_state.descriptors[first : first + _BATCH])
    finally:
        os.close(text)


def receive_state(directory: Path) -> tuple[socket.socket, Row, HandoverState]:
    """Receive the document and the descriptors of the predecessor that serves ``directory``.

    Raises HandoverFailed, OSError.
    """
    predecessor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handover_state = HandoverState()
    try:
        predecessor.settimeout(2 * SECONDS)
        predecessor.connect(str(directory / SOCKET_NAME))
        predecessor.send(_ASK + b" %d" % VERSION)
        word, (text, *_), _flags, _address = _one(predecessor)
        count = int(word)
        with open(text, "rb") as file:
            file.seek(0)  # the predecessor's writes moved the position that both processes share
            document = json.load(file)
        while len(handover_state.descriptors) < count:
            handover_state.descriptors += _one(predecessor)[1]
    except ValueError as err:
        predecessor.close()
        raise HandoverFailed(f"the predecessor refuses: {err}") from err
    except BaseException:
        predecessor.close()
        raise
    return predecessor, document, handover_state


def pause_ms(document: Row) -> float:
    """Return the milliseconds since the predecessor suspended its engine; NaN if it did not send
    the time.

    All processes on a machine share the monotonic clock.
    """
    suspended = document.get("suspended")
    return (time.monotonic() - suspended) * 1000 if isinstance(suspended, float) else math.nan


def _one(predecessor: socket.socket) -> tuple[bytes, list[int], int, object]:
    word, descriptors, flags, address = socket.recv_fds(
        predecessor, _MAX_WORD, seqpacket.SCM_MAX_FD
    )
    if not descriptors:
        raise HandoverFailed(f"the predecessor refuses: {word.decode(errors='replace')!r}")
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return word, descriptors, flags, address


def take_over_from(
    predecessor: socket.socket, document: Row, handover_state: HandoverState, server: HandoverServer
) -> Callable[[], None]:
    """Restore a predecessor's state and wait for the predecessor's GO.

    Return a function that starts to serve.

    Raises:
        HandoverFailed: the document is invalid, or the predecessor continues to serve.
        OSError: a resource is missing.
    """
    if document.get("version") != VERSION:
        raise HandoverFailed(
            f"the handover document has version {document.get('version')!r},"
            f" but this hcad can read only version {VERSION}"
        )
    try:
        serve = server.load(document["server"], handover_state)
    except (ValueError, KeyError, TypeError) as err:
        raise HandoverFailed(f"the handover document is invalid: {err!r}") from err
    predecessor.send(_READY)
    if predecessor.recv(_MAX_WORD) != _GO:
        raise HandoverFailed("the predecessor did not hand over and continues to serve")
    predecessor.close()
    return serve
