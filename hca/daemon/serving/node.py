"""``tessera-hcad``: serve the functions of a node's HCAs to its pods.

It needs no privilege, but the host's PID namespace: a program is known by its process. Everything
lies in a directory that the pod's first container makes for its user.

One hcad serves a node at a time: who has the lock. Another one that is started takes over from it
(``handover``), as a rolling update wants it; the first then stays, with nothing, until its pod is
ended. Where the first refuses, the other waits until it has gone, and begins anew.
"""

import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Never

import click

from hca.binding.engine import Engine
from hca.binding.engine_library import preload
from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.common.quotas import Shares, memory_limit, usable
from hca.daemon.objects.providers import Providers
from hca.daemon.serving import handover, policy_admin, walls
from hca.daemon.serving.administration import operations
from hca.daemon.serving.handover import HandoverFailed
from hca.daemon.serving.node_server import NodeServer
from hca.daemon.wires.pod_wires import Netd
from vgpu_sim.hal import direct
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.system import descriptors, foreign, seqpacket
from vgpu_sim.system.admin_socket import server as admin_server
from vgpu_sim.system.admin_socket.events import EventBus
from vgpu_sim.system.admin_socket.server import AdminServer

logger = logging.getLogger("tessera.hcad")

ADMIN_NAME: Final = "admin.sock"
LOCK_NAME: Final = "hcad.lock"
_AGENT_UID: Final = 0
_ADMIN_MODE: Final = 0o666
_DIRECT_MODE: Final = 0o666
"""gpud is root without the capability to pass over modes; who else connects is hung up on."""
_ASK_AGAIN_SECONDS: Final = 0.5
_LOOK_AGAIN_SECONDS: Final = 1.0
_FIRST_OWN_DESCRIPTOR: Final = 3


def _opened(path: Path) -> int:
    """Open the file of ``--ready-file``. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


@dataclass(frozen=True, slots=True)
class _Options:
    directory: Path = option(option_default=Path("/run/tessera/hca"))
    memory_bytes: int = option(
        "--memory",
        type=click.IntRange(min=1),
        option_default=1 << 30,
        show_default=True,
        help="Bytes that each program may register.",
    )
    wire: bool = option(
        "--wire/--no-wire", option_default=True, help="Have netd open sockets in pods' networks."
    )
    segments: bool = option(
        "--segments/--no-segments",
        option_default=True,
        help="Let the kernel cut and join packets of the wire (UDP_SEGMENT).",
    )
    weak: bool = option("--allow-weak-sandbox", help="Serve where seccomp is not to be had.")
    ready_fd: int | None = option(
        "--ready-file",
        type=click.Path(path_type=Path),
        convert=_opened,
        help="File that stops being empty when this hcad serves, for a probe.",
    )
    patience_seconds: float = option(
        "--patience",
        type=click.FloatRange(min=0),
        option_default=60.0,
        show_default=True,
        help="Seconds that the hcad which serves may refuse to hand over; then it is said to be"
        " ready, so that the other one is ended.",
    )


@dataclass(frozen=True, slots=True)
class _Listening:
    """What one hcad after the other listens on, and the lock that says which one serves."""

    lock: int
    successors: socket.socket
    administration: socket.socket
    providers: Providers

    def save(self, luggage: Luggage) -> Row:
        """Write them for a successor."""
        return {
            "lock": luggage.pack(self.lock),
            "successors": luggage.pack(self.successors.fileno()),
            "administration": luggage.pack(self.administration.fileno()),
            "direct": luggage.pack(self.providers.listener.fileno()),
        }


@click.command()
@command_line(_Options)
def main(given: Given) -> None:
    """Serve the functions of this node until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    foreign.prepare_waking()
    try:
        options = given.make(_Options)
        asyncio.run(_main(options, Shares.within(usable(walls.limit()), memory_limit())))
    except (OSError, HandoverFailed) as err:
        sys.exit(f"tessera-hcad: {err}")


async def _main(options: _Options, shares: Shares) -> None:
    lock, predecessor = _lock_or_ask(options)
    if predecessor is None:
        await _begin(options, shares, lock)
    else:
        os.close(lock)
        await _succeed(options, shares, *predecessor)


def _lock_or_ask(options: _Options) -> tuple[int, tuple[socket.socket, Row, Luggage] | None]:
    """Wait until nobody serves, or whoever does hands over. Raises OSError."""
    lock = os.open(options.directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end, said = time.monotonic() + options.patience_seconds, ""
    while True:
        try:
            if _is_free(lock):
                if not _answers(options.directory / direct.SOCKET_NAME):
                    return lock, None
                raise HandoverFailed("it is of a version that hands nothing over")
            return lock, handover.ask(options.directory)
        except (HandoverFailed, OSError) as err:
            if str(err) != said:
                logger.warning("waiting for the hcad that serves: %s", err)
            said = str(err)
        if time.monotonic() >= end:
            _say_ready(options)
        time.sleep(_ASK_AGAIN_SECONDS)


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _answers(path: Path) -> bool:
    """Tell whether somebody listens there, who would remove our sockets when it ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # its backlog is full
        except OSError:
            return False
    return True


def _say_ready(options: _Options) -> None:
    if options.ready_fd is not None:
        os.write(options.ready_fd, b"1")


async def _begin(options: _Options, shares: Shares, lock: int) -> None:
    directory = options.directory
    listening = _Listening(  # before the walls
        lock,
        seqpacket.bind(directory / handover.SOCKET_NAME, 0o600),
        admin_server.bind(directory / ADMIN_NAME, _ADMIN_MODE),
        Providers(seqpacket.bind(directory / direct.SOCKET_NAME, _DIRECT_MODE)),
    )
    engine = _confined_engine(options)
    server = _server(options, engine, shares, listening)
    await _serve(options, server, engine, listening, lambda: None)


async def _succeed(
    options: _Options,
    shares: Shares,
    predecessor: socket.socket,
    document: Row,
    luggage: Luggage,
) -> None:
    try:
        listening = _Listening(
            luggage.take(document["lock"]),
            socket.socket(fileno=luggage.take(document["successors"])),
            socket.socket(fileno=luggage.take(document["administration"])),
            Providers(socket.socket(fileno=luggage.take(document["direct"]))),
        )
        engine = _confined_engine(options)
        engine.hold()
        server = _server(options, engine, shares, listening)
        serve = handover.accept(predecessor, document, luggage, server)
    except (KeyError, TypeError, ValueError, OSError, HandoverFailed) as err:
        # All that is mapped here is the predecessor's: nothing is touched on the way out.
        logger.error("cannot take over: %s", err)  # noqa: TRY400
        os._exit(1)

    def start() -> None:
        serve()
        engine.release()
        logger.info("took_over programs=%d", len(document["server"]["programs"]))

    await _serve(options, server, engine, listening, start)


def _confined_engine(options: _Options) -> Engine:
    preload()
    walls.enter_on_node(options.directory, weak=options.weak)
    return Engine()


def _server(options: _Options, engine: Engine, shares: Shares, listening: _Listening) -> NodeServer:
    netd = Netd(options.directory if options.wire else None, options.segments)
    made = NodeServer(options.directory, engine, options.memory_bytes, shares=shares, netd=netd)
    made.providers = listening.providers
    return made


async def _serve(
    options: _Options,
    server: NodeServer,
    engine: Engine,
    listening: _Listening,
    start: Callable[[], None],
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    served = operations(server) | policy_admin.operations(server.enforcer, server.wires)
    admin = AdminServer(served, EventBus(), (_AGENT_UID,), policy_admin.MAX_LINE_BYTES)
    leave = partial(_stay, options.directory)
    offering = None
    try:
        start()
        listening.providers.open()
        await admin.open(options.directory / ADMIN_NAME, listening.administration)
        listening.successors.setblocking(False)
        listening.successors.listen(1)
        offering = loop.create_task(
            handover.offer(listening.successors, server, engine, listening.save, leave)
        )
        _say_ready(options)
        await ended.wait()
    finally:
        if offering is not None:
            offering.cancel()
        await admin.close()
        await server.close()
        await listening.providers.close()
        engine.close()


def _stay(directory: Path) -> Never:
    """Keep nothing but this process's place until it is ended, or nobody serves any more.

    Its pod is to be replaced, and is only once the successor's is ready: a container that ends
    before would be started again. If the successor goes instead, as when a rollout is undone, that
    is what has to happen. The engine is held and does not look at what is closed here.
    """
    logger.info("handed_over")
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    descriptors.close_all(first=_FIRST_OWN_DESCRIPTOR, limit=walls.MAX_DESCRIPTORS)
    lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    while not _is_free(lock):
        time.sleep(_LOOK_AGAIN_SECONDS)
    logger.warning("the hcad that took over has gone")
    os._exit(1)


if __name__ == "__main__":
    main()
