"""``tessera-netd``: opens the wire's sockets in the pods' network namespaces, for a node's hcad.

It has the capabilities that hcad is to do without: CAP_NET_ADMIN tells it the namespace of a
socket, CAP_SYS_ADMIN lets it in. Of what a pod says it reads nothing. hcad connects for each
request, which is one of the broker's; anybody else is hung up on.
"""

import logging
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from hca.daemon.netd import broker, netd_walls
from hca.daemon.netd.namespaces import Rules, identity_of, tables_of
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.system import seqpacket
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.netd")

SOCKET_NAME: Final = "net.sock"
INTERFACE: Final = "eth0"
"""The interface by which a pod has its address: container runtimes know it by this name."""
_SOCKET_MODE: Final = 0o660  # hcad is in the group that this process has
_REQUEST_SECONDS: Final = 2.0
_BACKLOG: Final = 64


@dataclass(frozen=True, slots=True)
class Options:
    """Where hcad looks for netd, and as whom it runs."""

    directory: Path = option(option_default=Path("/run/tessera/hca"))
    user: int = option(type=click.IntRange(min=0), required=True, help="User ID of hcad.")


@click.command()
@command_line(Options)
def main(given: Given) -> None:
    """Open sockets in network namespaces of pods for hcad in DIRECTORY, until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = given.make(Options)
    try:
        rules = rules_of_node()
        with listen(options.directory) as listener:
            netd_walls.enter()
            while True:
                serve_one(listener, options.user, rules)
    except OSError as err:
        sys.exit(f"tessera-netd: {err}")


def listen(directory: Path) -> socket.socket:
    """Return a socket that hcad finds in its directory. Raises OSError."""
    listener = seqpacket.bind(directory / SOCKET_NAME, _SOCKET_MODE)
    # Credentials with each message would take the room of the descriptor that comes with it.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    listener.setblocking(True)
    listener.listen(_BACKLOG)
    return listener


def rules_of_node(first: str = "1") -> Rules:
    """Return where sockets may be opened: nowhere where process ``first`` of the node is.

    Raises OSError: that process is not to be seen, or is in this very namespace.
    """
    tables = tables_of(first)
    if tables == tables_of("self"):
        raise OSError("needs the node's PID namespace, and a network namespace of its own")
    return Rules(
        interface=INTERFACE,
        refused=frozenset({identity_of("/proc/self/ns/net")}),
        owner=identity_of("/proc/self/ns/user"),
        tables=frozenset({tables}),
    )


def serve_one(listener: socket.socket, user: int, rules: Rules) -> None:
    """Serve the next connection until it is closed, or is silent for too long. Raises OSError."""
    client, _ = listener.accept()
    with client:
        peer = peer_of(client)
        if peer.uid != user:
            logger.warning("refused uid=%d pid=%d", peer.uid, peer.pid)
            return
        client.settimeout(_REQUEST_SECONDS)
        try:
            broker.serve(client, rules)
        except OSError as err:
            logger.info("client_dropped reason=%r", os.strerror(err.errno) if err.errno else "slow")


if __name__ == "__main__":
    main()
