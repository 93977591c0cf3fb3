"""``python -m hca.daemon``: serve one fabric until its last member has left.

hcad needs no privilege. Once it serves, it writes one byte to ``--ready-fd``, for the process
that started it (``vgpu_sim.cli.clients.fabric``). With ``--take-over`` it is the successor of
the hcad that serves the fabric now: see ``handover``.
"""

import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from hca.binding.engine import Engine
from hca.binding.engine_library import preload
from hca.binding.wire import NoWire, WireInterface, find
from hca.binding.wire_sockets import WireSockets, open_sockets
from hca.contract.fabric_files import (
    ADMIN_NAME,
    LOCK_NAME,
    POLICY_NAME,
    SOCKET_NAME,
    SYSFS_NAME,
)
from hca.contract.hca import HCA_MAX_MTU
from hca.daemon.cm.server import local_addresses
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.quotas import Shares, memory_limit, usable_descriptors
from hca.daemon.objects.providers import Providers
from hca.daemon.serving import handover, policy_admin, sandbox
from hca.daemon.serving.fabric_server import FabricServer
from hca.daemon.serving.handover import HandoverFailed
from hca.daemon.wires import saved_wires
from hca.daemon.wires.wires import Wires
from vgpu_sim.hal import direct
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.records import dataclass
from vgpu_sim.system import foreign, seqpacket
from vgpu_sim.system.admin_socket import server as admin_server
from vgpu_sim.system.admin_socket.events import EventBus
from vgpu_sim.system.admin_socket.server import AdminServer

FIRST_MEMBER_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    directory: Path = option(required=True)
    ready_fd: int = option(required=True)
    memory_bytes: int = option("--memory", required=True, help="Bytes for each program.")
    weak: bool = option("--allow-weak-sandbox", help="Serve even if seccomp is not available.")
    take_over: bool = option(help="Take over from the hcad that serves there.")
    linger_seconds: float = option(
        "--linger",
        option_default=0.0,
        help="After SIGTERM serve for so many seconds, unless a successor takes over.",
    )
    shared_loopback: bool = option(help="Let loopback addresses mean the whole fabric.")
    wire: WireInterface | None = option(
        type=str,
        convert=lambda name: find(name),
        help="Interface, or its address, of the network that connects to other nodes.",
    )
    segment: bool = option(help="Let the kernel segment and join the wire's packets.")
    wire_rate: int = option(option_default=0, help="Bytes a second that an address may send.")
    near: frozenset[bytes]


@click.command()
@command_line(_Options)
def main(option_values: Given) -> None:
    """Serve the fabric in DIRECTORY."""
    logging.basicConfig(level=logging.WARNING, format="hcad: %(message)s")
    foreign.prepare_waking()
    try:
        options = option_values.make(_Options, near=local_addresses())
        shares = Shares.for_memory_limit(
            usable_descriptors(sandbox.set_resource_limits()), memory_limit()
        )
        asyncio.run(_succeed(options, shares) if options.take_over else _begin(options, shares))
    except (OSError, HandoverFailed, NoWire) as err:
        sys.exit(f"hcad: {err}")


async def _begin(options: _Options, shares: Shares) -> None:
    # First the steps that the sandbox forbids.
    listener = seqpacket.bind(options.directory / SOCKET_NAME, 0o600)
    refusing = foreign.refuse_descriptors(listener)
    successors = seqpacket.bind(options.directory / handover.SOCKET_NAME, 0o600)
    administration = admin_server.bind(options.directory / ADMIN_NAME)
    addresses = options.wire.addresses if options.wire is not None else ()
    providers = Providers(seqpacket.bind(options.directory / direct.SOCKET_NAME, 0o600))
    sockets = [open_sockets(address, segments=options.segment) for address in addresses]
    engine = _confined_engine(options)
    ended = asyncio.Event()
    server = _server(options, engine, ended, shares, providers)
    await _serve(
        options,
        server,
        engine,
        ended,
        successors,
        administration,
        lambda: server.open(listener, refusing=refusing),
        sockets,
        _attach_wire(options, server, engine, sockets),
    )


def _attach_wire(
    options: _Options, server: FabricServer, engine: Engine, sockets: Sequence[WireSockets]
) -> Wires:
    wires = Wires(engine, server.enforcer, server.cm.manager)
    mtu = options.wire.path_mtu() if options.wire is not None else HCA_MAX_MTU
    for wire_sockets in sockets:
        wires.add(wire_sockets, mtu, options.wire_rate)
    server.wire_groups = wires.groups
    return wires


async def _succeed(options: _Options, shares: Shares) -> None:
    predecessor, document, handover_state = handover.receive_state(options.directory)
    try:  # first the steps that the sandbox forbids
        providers = Providers(
            socket.socket(fileno=handover_state.take_descriptor(document["direct"]))
        )
        wire, sockets = None, tuple[WireSockets, ...]()
        if document["wire"] is not None:
            wire, sockets = saved_wires.load(document["wire"], handover_state)
    except (KeyError, TypeError, ValueError) as err:
        raise HandoverFailed(f"the handover document is invalid: {err!r}") from err
    options = replace(options, wire=wire)
    engine = _confined_engine(options)
    engine.suspend()
    ended = asyncio.Event()
    server = _server(options, engine, ended, shares, providers)
    try:
        wires = _attach_wire(options, server, engine, sockets)  # before the connections over it
        successors = socket.socket(fileno=handover_state.take_descriptor(document["successors"]))
        administration = socket.socket(
            fileno=handover_state.take_descriptor(document["administration"])
        )
        serve = handover.take_over_from(predecessor, document, handover_state, server)
    except (KeyError, ValueError, OSError, HandoverFailed) as err:
        # The predecessor still uses all mappings: exit without any cleanup.
        logging.error("cannot take over: %s", err)  # noqa: TRY400
        os._exit(1)

    def start() -> None:
        serve()
        engine.resume()

    await _serve(
        options,
        server,
        engine,
        ended,
        successors,
        administration,
        start,
        sockets,
        wires,
    )


def _confined_engine(options: _Options) -> Engine:
    preload()
    sandbox.enter(options.directory, weak=options.weak, wired=options.wire is not None)
    engine = Engine()
    if not engine.watches_memory():
        logging.warning(
            "no userfaultfd: pages that clients release are charged to hcad when it uses them"
        )
    return engine


def _server(
    options: _Options,
    engine: Engine,
    ended: asyncio.Event,
    shares: Shares,
    providers: Providers,
) -> FabricServer:
    server = FabricServer(
        options.directory,
        engine,
        options.memory_bytes,
        ended.set,
        shares,
        shared_loopback=options.shared_loopback,
        near=options.near,
        wire=options.wire,
    )
    server.providers = providers
    return server


async def _serve(
    options: _Options,
    server: FabricServer,
    engine: Engine,
    ended: asyncio.Event,
    successors: socket.socket,
    administration: socket.socket,
    start: Callable[[], None],
    sockets: Sequence[WireSockets],
    wires: Wires,
) -> None:
    loop = asyncio.get_running_loop()
    providers = server.providers
    assert providers is not None
    terminated = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    loop.add_signal_handler(signal.SIGINT, ended.set)

    def extra_fields(handover_state: HandoverState) -> Row:
        wire = options.wire
        return {
            "wire": saved_wires.save(wire, sockets, handover_state) if wire is not None else None,
            "successors": handover_state.add_descriptor(successors.fileno()),
            "administration": handover_state.add_descriptor(administration.fileno()),
            "direct": handover_state.add_descriptor(providers.listener.fileno()),
        }

    async def linger() -> None:
        await terminated.wait()
        await asyncio.sleep(options.linger_seconds)
        ended.set()

    def end_if_alone() -> None:
        if not server.members:
            ended.set()

    offering = None
    server.wires_made = wires.engine_wires
    served = policy_admin.operations(server.enforcer)
    admin = AdminServer(served, EventBus(), max_line_bytes=policy_admin.MAX_LINE_BYTES)
    lingering = loop.create_task(linger())
    try:
        await admin.open(options.directory / ADMIN_NAME, administration)
        start()
        providers.open()
        successors.setblocking(False)
        successors.listen(1)
        offering = loop.create_task(
            handover.serve_successors(successors, server, engine, extra_fields)
        )
        os.write(options.ready_fd, b"1")
        os.close(options.ready_fd)
        loop.call_later(FIRST_MEMBER_SECONDS, end_if_alone)
        await ended.wait()
    finally:
        # During shutdown SIGTERM is blocked: without the loop's handler it would end the process
        # with another status.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        lingering.cancel()
        if offering is not None:
            offering.cancel()
        await admin.close()
        await server.close()
        await providers.close()
        wires.close()
        for wire_sockets in sockets:
            wire_sockets.close()
        engine.close()
        _leave(options.directory)


def _leave(directory: Path) -> None:
    """Remove the fabric's folder, unless another hcad is being started in it."""
    with suppress(OSError):
        lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in (SOCKET_NAME, direct.SOCKET_NAME, handover.SOCKET_NAME, POLICY_NAME):
                (directory / name).unlink(missing_ok=True)
            with suppress(OSError):
                (directory / SYSFS_NAME).rmdir()
            (directory / LOCK_NAME).unlink()
            directory.rmdir()
        finally:
            os.close(lock)


if __name__ == "__main__":
    main()
