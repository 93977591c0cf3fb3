"""``python -m vgpu_sim.hcad``: serve one fabric until its last member has gone.

It needs no privilege. Who starts it writes nothing to it and reads one byte from ``--ready-fd``
when it serves; see ``vgpu_sim.cli.clients.fabric`` for the other side.
"""

import asyncio
import fcntl
import logging
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

import click

from vgpu_sim.fabric.engine import Engine, EngineWire
from vgpu_sim.fabric.wire import NoWire, WireAddress, WireInterface, find
from vgpu_sim.fabric.wire_sockets import open_sockets
from vgpu_sim.gpud.system import foreign
from vgpu_sim.hcad.server import SOCKET_NAME, SYSFS_NAME, Server

LOCK_NAME = "lock"
FIRST_MEMBER_SECONDS = 30.0


@click.command()
@click.option("--directory", type=click.Path(path_type=Path), required=True)
@click.option("--ready-fd", type=int, required=True)
@click.option("--memory", "memory_bytes", type=int, required=True, help="Bytes for each program.")
@click.option("--wire", help="Interface or address whose network others are reached over.")
@click.option("--segment", is_flag=True, help="Let the kernel cut and join packets of the wire.")
def main(
    directory: Path, ready_fd: int, memory_bytes: int, wire: str | None, segment: bool
) -> None:
    """Serve the fabric in DIRECTORY."""
    logging.basicConfig(level=logging.WARNING, format="hcad: %(message)s")
    foreign.prepare_waking()
    _least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a region has a descriptor
    try:
        interface = find(wire) if wire is not None else None
        asyncio.run(_serve(directory, ready_fd, memory_bytes, interface, segment))
    except (OSError, NoWire) as err:
        sys.exit(f"hcad: {err}")


async def _serve(
    directory: Path,
    ready_fd: int,
    memory_bytes: int,
    interface: WireInterface | None,
    segment: bool,
) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    engine = Engine()
    server = Server(directory, engine, memory_bytes, ended.set, interface)
    wires: list[EngineWire] = []
    try:
        for address in interface.addresses if interface is not None else ():
            wires.append(_add_wire(engine, address, segment))
        server.open()
        os.write(ready_fd, b"1")
        os.close(ready_fd)

        def end_if_alone() -> None:
            if not server.members:
                ended.set()

        asyncio.get_running_loop().call_later(FIRST_MEMBER_SECONDS, end_if_alone)
        await ended.wait()
    finally:
        await server.close()
        for wire in wires:
            engine.remove_wire(wire)
        engine.close()
        _leave(directory)


def _add_wire(engine: Engine, address: WireAddress, segment: bool) -> EngineWire:
    sockets = open_sockets(address, segments=segment)
    try:
        return engine.add_wire(sockets.structure())
    finally:
        sockets.close()


def _leave(directory: Path) -> None:
    """Remove the fabric's folder, unless the next one is being started in it."""
    with suppress(OSError):
        lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (directory / SOCKET_NAME).unlink(missing_ok=True)
            with suppress(OSError):
                (directory / SYSFS_NAME).rmdir()
            (directory / LOCK_NAME).unlink()
            directory.rmdir()
        finally:
            os.close(lock)


if __name__ == "__main__":
    main()
