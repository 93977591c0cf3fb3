"""What a stranger observes of the port on which ranks of an NCCL communicator wait for each other."""

import contextlib
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from support.oracles import nccl_peer
from support.oracles.nccl_peer import Invitation
from support.processes.tessera_run import LIBCUDA

NCCL = LIBCUDA.parent / "math" / "libnccl.so.2"
pytestmark = pytest.mark.skipif(
    not NCCL.exists(), reason="NOT RUN: python -m vgpu_sim.native.build"
)
# Prints an id, and stays until its input ends.
ROOT = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
identity = ctypes.create_string_buffer(128)
assert nccl.ncclGetUniqueId(identity) == 0
print(identity.raw.hex(), flush=True)
sys.stdin.read()
"""
Visit = Callable[[], tuple[socket.socket, bytes]]
RANKS = 200  # more than connect, so that the root waits on
PART = 0.5  # seconds in which a connection that is to stay open stays open


@pytest.fixture
def invitation() -> Iterator[Invitation]:
    """Yield the contents of an id whose root waits in another process."""
    with subprocess.Popen(
        [sys.executable, "-c", ROOT, str(NCCL)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        yield Invitation.from_id(bytes.fromhex(process.stdout.readline()))
        process.stdin.close()  # type: ignore[union-attr]


@pytest.fixture
def visit(invitation: Invitation) -> Iterator[Visit]:
    """Yield a function that connects to the root and returns its challenge, too."""
    with contextlib.ExitStack() as connections:

        def connect() -> tuple[socket.socket, bytes]:
            connection = connections.enter_context(nccl_peer.connect(invitation.address))
            return connection, nccl_peer.receive(connection, nccl_peer.CHALLENGE_BYTES)

        yield connect


def change(data: bytes, at: int) -> bytes:
    """Change one byte."""
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection that sends nothing more."""
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(1) == b""
    return True


def test_a_right_and_a_wrong_byte_are_not_distinguished(
    invitation: Invitation, visit: Visit
) -> None:
    """For each number of right bytes, of the greeting, its tag, and the secret itself, a wrong next
    byte leaves the connection as open and as silent as a right one, until all bytes have come."""
    waiting: list[tuple[socket.socket, bytes, bool]] = []
    numbers = iter(range(RANKS))
    for right in range(17):
        for wrong in (False, True):
            for kind in ("greeting", "tag", "secret"):
                connection, challenge = visit()
                greeting = nccl_peer.greet(
                    invitation.secret, challenge, nccl_peer.TO_ROOT, next(numbers), RANKS
                )
                begin = len(greeting) - 32 if kind == "tag" else 0
                if kind == "secret":
                    greeting = invitation.secret + greeting[len(invitation.secret) :]
                if wrong:
                    greeting = change(greeting, begin + right)
                connection.sendall(greeting[: begin + right + 1])
                is_right = not wrong and kind != "secret"
                waiting.append((connection, greeting[begin + right + 1 :], is_right))
    connections = [connection for connection, _, _ in waiting]
    assert select.select(connections, [], [], PART)[0] == []
    for connection, remainder, _ in waiting:
        connection.sendall(remainder[:-1])
    assert select.select(connections, [], [], PART)[0] == []
    for connection, remainder, is_right in waiting:
        connection.sendall(remainder[-1:])
        if is_right:
            assert len(nccl_peer.receive(connection, nccl_peer.PROOF_BYTES)) == 32
        else:
            assert is_closed(connection)


def test_the_time_to_a_refusal_does_not_depend_on_the_first_wrong_byte(
    invitation: Invitation, visit: Visit
) -> None:
    times: dict[int, list[float]] = {0: [], 31: []}
    for _ in range(40):
        for at, values in times.items():
            connection, challenge = visit()
            greeting = nccl_peer.greet(invitation.secret, challenge, nccl_peer.TO_ROOT, 0, RANKS)
            began = time.monotonic()
            connection.sendall(change(greeting, len(greeting) - 32 + at))
            assert is_closed(connection)
            values.append(time.monotonic() - began)
    first, last = (statistics.median(values) for values in times.values())
    assert abs(first - last) < 0.02, (first, last)  # both are below a millisecond


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("other challenge", lambda greeting, other: other),
        ("other secret", lambda greeting, other: greeting[:-32] + bytes(32)),
        ("other rank", lambda greeting, other: change(greeting, 40)),
        ("other place", lambda greeting, other: change(greeting, 80)),
    ],
)
def test_a_greeting_fits_one_connection_only(
    invitation: Invitation, visit: Visit, name: str, spoil: Callable[[bytes, bytes], bytes]
) -> None:
    connection, challenge = visit()
    _, earlier = visit()
    arguments = (nccl_peer.TO_ROOT, 0, RANKS)
    greeting = nccl_peer.greet(invitation.secret, challenge, *arguments)
    replayed = nccl_peer.greet(invitation.secret, earlier, *arguments)
    connection.sendall(spoil(greeting, replayed))
    assert is_closed(connection), name


def test_a_greeting_for_a_rank_is_refused_by_the_root(invitation: Invitation, visit: Visit) -> None:
    connection, challenge = visit()
    connection.sendall(nccl_peer.greet(invitation.secret, challenge, nccl_peer.TO_RANK, 1, 2))
    assert is_closed(connection)


def test_the_roots_proof_is_no_greeting(invitation: Invitation, visit: Visit) -> None:
    """What the root sends is not accepted from a stranger that sends it back."""
    connection, challenge = visit()
    greeting = nccl_peer.greet(invitation.secret, challenge, nccl_peer.TO_ROOT, 0, RANKS)
    connection.sendall(greeting)
    proof = nccl_peer.receive(connection, nccl_peer.PROOF_BYTES)
    stranger, _ = visit()
    stranger.sendall(greeting[:-32] + proof)
    assert is_closed(stranger)


def test_ranks_join_in_a_flood_of_silent_connections(invitation: Invitation) -> None:
    """The port is closed when the last rank has come, before any rank is answered."""
    stop = threading.Event()
    silent: list[socket.socket] = []

    def flood() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                silent.append(nccl_peer.connect(invitation.address))
                if len(silent) > 400:
                    silent.pop(0).close()
            time.sleep(0.001)

    thread = threading.Thread(target=flood)
    thread.start()
    while len(silent) < 300:  # more than the root keeps
        time.sleep(0.01)
    channels = []
    for rank in range(3):
        for _ in range(100):
            try:
                channels.append(
                    nccl_peer.open_channel(
                        invitation.address, invitation.secret, nccl_peer.TO_ROOT, rank, 3
                    )
                )
                break
            except OSError:
                continue  # closed as the oldest of this address, as the library's ranks expect
    for channel in channels:
        assert channel.receive(8) == b"\0\0\0\0\3\0\0\0"
    with pytest.raises(ConnectionRefusedError):
        nccl_peer.connect(invitation.address)
    stop.set()
    thread.join()
    for connection in silent:
        connection.close()
    for channel in channels:
        assert len(channel.receive(3 * 48)) == 144
        channel.connection.close()
