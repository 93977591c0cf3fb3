"""A rank of an NCCL communicator without a GPU: the protocol of ADR 208, written a second time."""

import contextlib
import hmac
import os
import secrets
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

from support.oracles.siphash import siphash

CHALLENGE_BYTES, PROOF_BYTES, TAG_BYTES = 40, 32, 16
TO_ROOT, TO_RANK = 1, 2
NO_ADDRESS, NO_PLACE = bytes(24), bytes(16) + (1).to_bytes(8, "little")
_ADDRESS = struct.Struct("=H2sI16s")
_MEMBER_BYTES = 48


@dataclass(frozen=True)
class Invitation:
    """The contents of an id."""

    secret: bytes
    address: bytes

    @classmethod
    def from_id(cls, identity: bytes) -> "Invitation":
        """Read an ``ncclUniqueId``."""
        return cls(identity[8:24], identity[24:48])


def connect(address: bytes) -> socket.socket:
    """Connect to an address of the protocol."""
    family, port, _, host = _ADDRESS.unpack(address)
    connection = socket.socket(family)
    connection.settimeout(60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    size = 4 if family == socket.AF_INET else 16
    try:
        connection.connect((socket.inet_ntop(family, host[:size]), int.from_bytes(port, "big")))
    except OSError:
        connection.close()
        raise
    return connection


def receive(connection: socket.socket, size: int) -> bytes:
    """Receive so many bytes.

    Raises:
        ConnectionError: the connection ended before.
    """
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError(f"the connection ended after {len(data)} of {size} bytes")
        data += part
    return data


def greet(
    secret: bytes, challenge: bytes, acceptor: int, rank: int, ranks: int, acceptor_rank: int = 0
) -> bytes:
    """Return a greeting that fits a challenge."""
    numbers = struct.pack("=IIII", acceptor, acceptor_rank, rank, ranks)
    greeting = secrets.token_bytes(32) + numbers + NO_ADDRESS + NO_PLACE
    label = b"tessera nccl connector\0"
    return greeting + hmac.digest(secret, label + challenge + greeting, "sha256")


@dataclass
class Channel:
    """A connection after its handshake."""

    connection: socket.socket
    out_key: bytes
    in_key: bytes
    sent: int = 0
    received: int = 0
    frames: list[bytes] = field(default_factory=list)  # what was sent, with tags

    def frame(self, data: bytes) -> bytes:
        """Return data with the tag of the next chunk."""
        number = self.sent.to_bytes(8, "little")
        self.sent += 1
        self.frames.append(data + siphash(self.out_key, number + data))
        return self.frames[-1]

    def send(self, data: bytes) -> None:
        """Send one chunk."""
        self.connection.sendall(self.frame(data))

    def receive(self, size: int) -> bytes:
        """Receive one chunk and compare its tag."""
        frame = receive(self.connection, size + TAG_BYTES)
        number = self.received.to_bytes(8, "little")
        self.received += 1
        assert frame[size:] == siphash(self.in_key, number + frame[:size])
        return frame[:size]


def open_channel(
    address: bytes, secret: bytes, acceptor: int, rank: int, ranks: int, acceptor_rank: int = 0
) -> Channel:
    """Connect to a root or a rank, and exchange proofs of the secret.

    Raises:
        OSError: the acceptor closed the connection.
    """
    connection = connect(address)
    try:
        challenge = receive(connection, CHALLENGE_BYTES)
        greeting = greet(secret, challenge, acceptor, rank, ranks, acceptor_rank)
        connection.sendall(greeting)
        proof = receive(connection, PROOF_BYTES)
    except OSError:
        connection.close()
        raise
    transcript = challenge + greeting
    assert proof == hmac.digest(secret, b"tessera nccl acceptor\0" + transcript, "sha256")
    keys = hmac.digest(secret, b"tessera nccl keys\0" + transcript, "sha256")
    return Channel(connection, keys[:16], keys[16:])


def count_listeners(process: int | str = "self") -> int:
    """Return how many sockets of a process listen."""
    descriptors = Path(f"/proc/{process}/fd")
    targets = set()
    for name in os.listdir(descriptors):
        with contextlib.suppress(FileNotFoundError):
            targets.add(os.readlink(descriptors / name))
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net", table).read_text().splitlines()[1:]
    ]
    return sum(row[3] == "0A" and f"socket:[{row[9]}]" in targets for row in rows)


def join_as_last(invitation: Invitation, ranks: int = 2) -> Channel:
    """Join as the last rank, to which no other connects; return the channel to rank 0."""
    root = open_channel(invitation.address, invitation.secret, TO_ROOT, ranks - 1, ranks)
    assert struct.unpack("=II", root.receive(8)) == (0, ranks)
    members = root.receive(ranks * _MEMBER_BYTES)
    root.connection.close()
    return open_channel(members[:24], invitation.secret, TO_RANK, ranks - 1, ranks)
