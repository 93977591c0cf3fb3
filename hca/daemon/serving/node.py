"""``tessera-hcad``: serve the functions of a node's HCAs to its pods.

hcad needs no privilege except the host's PID namespace, because it identifies a program by its
process. All its files are in a directory that the pod's first container makes for hcad's user.

One hcad serves a node at a time: the one that holds the lock. A second hcad takes over from the
first (``handover``), as in a rolling update; the first then waits, without any objects, until
its pod is deleted. If the first hcad refuses, the second waits until the first has ended, and
starts without the first one's state.
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
from functools import partial
from pathlib import Path
from typing import Final, Never

import click

from hca.binding.engine import Engine
from hca.binding.engine_library import preload
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.quotas import Shares, memory_limit, usable_descriptors
from hca.daemon.objects.providers import Providers
from hca.daemon.serving import handover, policy_admin, sandbox, traffic
from hca.daemon.serving.administration import operations
from hca.daemon.serving.handover import HandoverFailed
from hca.daemon.serving.node_server import NodeServer
from hca.daemon.wires.pod_wires import Netd
from vgpu_sim.hal import direct
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.records import dataclass
from vgpu_sim.system import descriptors, foreign, seqpacket, socket_paths
from vgpu_sim.system.admin_socket import server as admin_server
from vgpu_sim.system.admin_socket.events import EventBus
from vgpu_sim.system.admin_socket.server import AdminServer

logger = logging.getLogger("tessera.hcad")

ADMIN_NAME: Final = "admin.sock"
LOCK_NAME: Final = "hcad.lock"
_AGENT_UID: Final = 0
_ADMIN_MODE: Final = 0o666
_DIRECT_MODE: Final = 0o666
"""Permission bits of the socket for gpud. gpud runs as root without CAP_DAC_OVERRIDE, so it needs
these bits; hcad refuses all other users.
"""
TELEMETRY_NAME: Final = "telemetry/hcad.sock"
_ASK_AGAIN_SECONDS: Final = 0.5
_LOOK_AGAIN_SECONDS: Final = 1.0
_FIRST_OWN_DESCRIPTOR: Final = 3


def _open_ready_file(path: Path) -> int:
    """Open the file that ``--ready-file`` names. Raises OSError."""
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
        help="Let the kernel segment and join the wire's packets (UDP_SEGMENT).",
    )
    weak: bool = option("--allow-weak-sandbox", help="Serve even if seccomp is not available.")
    telemetry_user: int | None = option(
        "--telemetry-user",
        type=click.IntRange(min=0),
        help=f"UID of the user who may read counters of traffic and denials, on {TELEMETRY_NAME}.",
    )
    ready_fd: int | None = option(
        "--ready-file",
        type=click.Path(path_type=Path),
        convert=_open_ready_file,
        help="File that stops being empty when this hcad serves, for a probe.",
    )
    patience_seconds: float = option(
        "--patience",
        type=click.FloatRange(min=0),
        option_default=60.0,
        show_default=True,
        help="Seconds for which the serving hcad may refuse a handover; after them this one reports"
        " that it is ready, so that the other is deleted.",
    )


@dataclass(frozen=True, slots=True)
class _Listening:
    """The sockets and the lock that an hcad hands over to the next."""

    lock: int
    successors: socket.socket
    administration: socket.socket
    providers: Providers

    def save(self, handover_state: HandoverState) -> Row:
        """Return the record of the sockets and the lock for a successor."""
        return {
            "lock": handover_state.add_descriptor(self.lock),
            "successors": handover_state.add_descriptor(self.successors.fileno()),
            "administration": handover_state.add_descriptor(self.administration.fileno()),
            "direct": handover_state.add_descriptor(self.providers.listener.fileno()),
        }


@click.command()
@command_line(_Options)
def main(option_values: Given) -> None:
    """Serve the functions of this node until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    foreign.prepare_waking()
    try:
        options = option_values.make(_Options)
        asyncio.run(
            _main(
                options,
                Shares.for_memory_limit(
                    usable_descriptors(sandbox.set_resource_limits()),
                    memory_limit(),
                    functions=None,
                ),
            )
        )
    except (OSError, HandoverFailed) as err:
        sys.exit(f"tessera-hcad: {err}")


async def _main(options: _Options, shares: Shares) -> None:
    # A predecessor suspends its engine when it hands over: everything that does not need its state
    # is done before.
    engine = _confined_engine(options)
    lock, predecessor = _lock_or_take_over(options)
    if predecessor is None:
        await _begin(options, shares, engine, lock)
    else:
        os.close(lock)
        await _succeed(options, shares, engine, *predecessor)


def _lock_or_take_over(
    options: _Options,
) -> tuple[int, tuple[socket.socket, Row, HandoverState] | None]:
    """Wait until no hcad serves, or until the serving hcad hands over. Raises OSError.

    Return the lock's descriptor, and what a predecessor has sent, if there is one.
    """
    lock = os.open(options.directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end, last_warning = time.monotonic() + options.patience_seconds, ""
    while True:
        try:
            if _is_free(lock):
                if not _answers(options.directory / direct.SOCKET_NAME):
                    return lock, None
                raise HandoverFailed("the running hcad's version does not support a handover")
            return lock, handover.receive_state(options.directory)
        except (HandoverFailed, OSError) as err:
            if str(err) != last_warning:
                logger.warning("waiting for the hcad that serves: %s", err)
            last_warning = str(err)
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
    """Return whether an hcad without the lock still listens at ``path``.

    Such an hcad would remove this hcad's sockets when it ends.
    """
    return socket_paths.is_served(path, socket.SOCK_SEQPACKET)


def _say_ready(options: _Options) -> None:
    if options.ready_fd is not None:
        os.write(options.ready_fd, b"1")


async def _begin(options: _Options, shares: Shares, engine: Engine, lock: int) -> None:
    directory = options.directory
    listening = _Listening(
        lock,
        seqpacket.bind(directory / handover.SOCKET_NAME, 0o600),
        admin_server.bind(directory / ADMIN_NAME, _ADMIN_MODE),
        Providers(seqpacket.bind(directory / direct.SOCKET_NAME, _DIRECT_MODE)),
    )
    server = _server(options, engine, shares, listening)
    await _serve(options, server, engine, listening, lambda: None)


async def _succeed(
    options: _Options,
    shares: Shares,
    engine: Engine,
    predecessor: socket.socket,
    document: Row,
    handover_state: HandoverState,
) -> None:
    try:
        listening = _Listening(
            handover_state.take_descriptor(document["lock"]),
            socket.socket(fileno=handover_state.take_descriptor(document["successors"])),
            socket.socket(fileno=handover_state.take_descriptor(document["administration"])),
            Providers(socket.socket(fileno=handover_state.take_descriptor(document["direct"]))),
        )
        engine.suspend()
        server = _server(options, engine, shares, listening)
        serve = handover.take_over_from(predecessor, document, handover_state, server)
    except (KeyError, TypeError, ValueError, OSError, HandoverFailed) as err:
        # The predecessor still uses all mappings: exit without any cleanup.
        logger.error("cannot take over: %s", err)  # noqa: TRY400
        os._exit(1)

    def start() -> None:
        serve()
        engine.resume()
        logger.info(
            "took_over programs=%d pause_ms=%.1f",
            len(document["server"]["programs"]),
            handover.pause_ms(document),
        )

    await _serve(options, server, engine, listening, start)


def _confined_engine(options: _Options) -> Engine:
    preload()
    sandbox.enter_on_node(options.directory, weak=options.weak)
    return Engine()


def _server(options: _Options, engine: Engine, shares: Shares, listening: _Listening) -> NodeServer:
    netd = Netd(options.directory if options.wire else None, options.segments)
    server = NodeServer(options.directory, engine, options.memory_bytes, shares=shares, netd=netd)
    server.providers = listening.providers
    return server


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
    reading = None
    if options.telemetry_user is not None:
        reading = AdminServer(traffic.operations(server), EventBus(), (options.telemetry_user,))
    leave = partial(_stay, options.directory)
    offering = None
    try:
        start()
        listening.providers.open()
        await admin.open(options.directory / ADMIN_NAME, listening.administration)
        if reading is not None:
            # Not handed over: the successor binds its own socket, and only after it has taken over.
            path = options.directory / TELEMETRY_NAME
            path.parent.mkdir(mode=0o755, exist_ok=True)
            await reading.open(path)
        listening.successors.setblocking(False)
        listening.successors.listen(1)
        offering = loop.create_task(
            handover.serve_successors(listening.successors, server, engine, listening.save, leave)
        )
        _say_ready(options)
        await ended.wait()
    finally:
        if offering is not None:
            offering.cancel()
        if reading is not None:
            await reading.close()
        await admin.close()
        await server.close()
        await listening.providers.close()
        engine.close()


def _stay(directory: Path) -> Never:
    """Wait without any objects until the process is ended, or until no hcad serves any more.

    Kubernetes replaces the pod once the successor's pod is ready. If this container exited
    earlier, the kubelet would restart it. But if the successor ends, as when a rollout is
    undone, such a restart is wanted. The engine is suspended and does not notice that its
    descriptors are closed.
    """
    logger.info("handed_over")
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    descriptors.close_all(first=_FIRST_OWN_DESCRIPTOR, limit=sandbox.MAX_DESCRIPTORS)
    lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    while not _is_free(lock):
        time.sleep(_LOOK_AGAIN_SECONDS)
    logger.warning("the hcad that took over has ended")
    os._exit(1)


if __name__ == "__main__":
    main()
