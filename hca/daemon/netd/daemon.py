"""``tessera-netd``: open the wire's sockets in the pods' network namespaces, for a node's hcad.

netd has capabilities that hcad must not have: CAP_NET_ADMIN to get a socket's namespace, and
CAP_SYS_ADMIN to enter the namespace. netd does not read anything that a pod has written. hcad
connects for each request (see ``broker``); netd closes connections from other users.
"""

import logging
import os
import socket
import sys
from pathlib import Path
from typing import Final

import click

from hca.daemon.netd import broker, netd_sandbox
from hca.daemon.netd.namespaces import Rules, identity_of, unprivileged_identity
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.records import dataclass
from vgpu_sim.system import seqpacket
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.netd")

SOCKET_NAME: Final = "net.sock"
INTERFACE: Final = "eth0"
"""The name that container runtimes give to the interface with a pod's address."""
_SOCKET_MODE: Final = 0o660  # hcad's group is also netd's group
_REQUEST_SECONDS: Final = 2.0
_BACKLOG: Final = 64


@dataclass(frozen=True, slots=True)
class Options:
    """The folder of netd's socket, and hcad's user."""

    directory: Path = option(option_default=Path("/run/tessera/hca"))
    user: int = option(type=click.IntRange(min=0), required=True, help="User ID of hcad.")


@click.command()
@command_line(Options)
def main(option_values: Given) -> None:
    """Open sockets in pods' network namespaces until SIGTERM, for the hcad that uses DIRECTORY."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = option_values.make(Options)
    try:
        rules = rules_of_node()
        with listen(options.directory) as listener:
            netd_sandbox.enter()
            while True:
                serve_one(listener, options.user, rules)
    except OSError as err:
        sys.exit(f"tessera-netd: {err}")


def listen(directory: Path) -> socket.socket:
    """Return a listening socket in hcad's directory. Raises OSError."""
    listener = seqpacket.bind(directory / SOCKET_NAME, _SOCKET_MODE)
    # A message with credentials would have no room for the descriptor.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    listener.setblocking(True)
    listener.listen(_BACKLOG)
    return listener


def rules_of_node(first: str = "1") -> Rules:
    """Return rules that exclude the node's own network namespace.

    That is the network namespace of process ``first``. Raises OSError if process ``first`` is
    not visible, or is in netd's own network namespace.
    """
    tables = unprivileged_identity(first)
    if tables == unprivileged_identity("self"):
        raise OSError(
            "netd needs the node's PID namespace and a network namespace of its own:"
            " run its pod with hostPID, and without hostNetwork"
        )
    return Rules(
        interface=INTERFACE,
        refused=frozenset({identity_of("/proc/self/ns/net")}),
        owner=identity_of("/proc/self/ns/user"),
        tables=frozenset({tables}),
    )


def serve_one(listener: socket.socket, user: int, rules: Rules) -> None:
    """Accept the next connection and serve it until it is closed or silent for too long. Raises
    OSError.
    """
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
