"""``tessera-hcad``: serve the functions of a node's HCAs to its pods.

It needs no privilege, but the host's PID namespace: a program is known by its process. Everything
lies in a directory that the pod's first container makes for its user.
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Final

import click

from vgpu_sim.fabric.engine import Engine
from vgpu_sim.gpud.admin.server import AdminServer
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.hal import direct
from vgpu_sim.hcad import policy_admin, walls
from vgpu_sim.hcad.administration import operations
from vgpu_sim.hcad.pod_wires import PodWires
from vgpu_sim.hcad.pods import PodServer
from vgpu_sim.hcad.providers import Providers
from vgpu_sim.hcad.shares import Shares, usable
from vgpu_sim.system import foreign, seqpacket

ADMIN_NAME: Final = "admin.sock"
_AGENT_UID: Final = 0
_DIRECT_MODE: Final = 0o666
"""gpud is root without the capability to pass over modes; who else connects is hung up on."""


@click.command()
@click.option("--directory", type=click.Path(path_type=Path), default=Path("/run/tessera/hca"))
@click.option(
    "--memory",
    "memory_bytes",
    type=click.IntRange(min=1),
    default=1 << 30,
    show_default=True,
    help="Bytes that each program may register.",
)
@click.option("--wire/--no-wire", default=True, help="Have netd open sockets in pods' networks.")
@click.option(
    "--segments/--no-segments",
    default=True,
    help="Let the kernel cut and join packets of the wire (UDP_SEGMENT).",
)
def main(directory: Path, memory_bytes: int, wire: bool, segments: bool) -> None:
    """Serve the functions of this node until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    foreign.prepare_waking()
    try:
        shares = Shares(usable(walls.limit()))
        asyncio.run(_serve(directory, memory_bytes, shares, wire=wire, segments=segments))
    except OSError as err:
        sys.exit(f"tessera-hcad: {err}")


async def _serve(
    directory: Path, memory_bytes: int, shares: Shares, *, wire: bool, segments: bool
) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    engine = Engine()
    wires = PodWires(engine, directory if wire else None, segments=segments)
    server = PodServer(directory, engine, memory_bytes, shares=shares, wires=wires)
    providers = Providers(seqpacket.bind(directory / direct.SOCKET_NAME, _DIRECT_MODE))
    server.providers = providers
    served = operations(server) | policy_admin.operations(server.enforcer, wires)
    admin = AdminServer(served, EventBus(), (_AGENT_UID,), policy_admin.MAX_LINE_BYTES)
    try:
        providers.open()
        await admin.open(directory / ADMIN_NAME)
        await ended.wait()
    finally:
        await admin.close()
        await server.close()
        await providers.close()
        engine.close()


if __name__ == "__main__":
    main()
