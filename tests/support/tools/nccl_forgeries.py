"""Rank 0 of NCCL communicators whose rank 1 has no GPU and sends what the argument names.

``right``: what a rank sends. ``changed``, ``repeated``, ``swapped``, ``reflected``: right bytes that
are changed, sent again, sent in another order, or sent back. Prints for each what the all-reduce gives.
"""

import ctypes as c
import struct
import sys
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of `tessera run` has another path

from support.oracles.nccl_peer import (
    Channel,
    Invitation,
    count_listeners,
    join_as_last,
    receive,
)
from support.scripts.nccl_ranks import FLOAT, SUM, Gpu, Id, check, cuda, nccl

AGREEMENT_BYTES, TAG_BYTES, COUNT = 40, 16, 4
PATIENCE_S = 120


def send_reductions(channel: Channel, act: str) -> None:
    """Send the agreement and this rank's data, as the act has it."""
    frame = receive(channel.connection, AGREEMENT_BYTES + TAG_BYTES)
    if act == "reflected":
        channel.connection.sendall(frame)
        return
    agreement = channel.frame(frame[:AGREEMENT_BYTES])
    half = struct.pack("=2f", 10, 20)
    data, result = channel.frame(half), channel.frame(half)
    match act:
        case "right":
            channel.connection.sendall(agreement + data + result)
        case "changed":
            channel.connection.sendall(agreement + bytes([data[0] ^ 1]) + data[1:] + result)
        case "repeated":
            channel.connection.sendall(agreement + data + data)
        case "swapped":
            channel.connection.sendall(agreement + result + data)


def run(gpu: Gpu, act: str) -> str:
    """Let rank 0 reduce with a peer; return the numbers, or the error."""
    identity, comm = Id(), c.c_void_p()
    check(nccl.ncclGetUniqueId(c.byref(identity)))
    assert count_listeners() == 1
    channels: list[Channel] = []

    def join() -> None:
        channels.append(join_as_last(Invitation.from_id(bytes(identity))))
        send_reductions(channels[0], act)

    peer = threading.Thread(target=join)
    peer.start()
    check(nccl.ncclCommInitRank(c.byref(comm), 2, identity, 0))
    assert count_listeners() == 0  # neither the root's nor the rank's
    memory, status = gpu.put(np.arange(1, COUNT + 1, dtype="f4")), c.c_int()
    check(nccl.ncclAllReduce(memory, memory, c.c_size_t(COUNT), FLOAT, SUM, comm, None))
    deadline = time.monotonic() + PATIENCE_S
    while cuda.cuStreamQuery(None) == 600 and not status.value and time.monotonic() < deadline:
        time.sleep(0.01)
        check(nccl.ncclCommGetAsyncError(comm, c.byref(status)))
    peer.join()
    text = nccl.ncclGetLastError(comm).decode()
    if not status.value:
        text = str(gpu.get(memory, np.zeros(COUNT, "f4")).tolist())
    check(nccl.ncclCommAbort(comm))
    check(cuda.cuCtxSynchronize())
    channels[0].connection.close()
    return f"{status.value} {text}"


def run_alone() -> None:
    """One rank closes the port of its id, too."""
    identity, comm = Id(), c.c_void_p()
    check(nccl.ncclGetUniqueId(c.byref(identity)))
    check(nccl.ncclCommInitRank(c.byref(comm), 1, identity, 0))
    assert count_listeners() == 0
    check(nccl.ncclCommDestroy(comm))


if __name__ == "__main__":
    device = Gpu(0)
    run_alone()
    for name in sys.argv[1:]:
        print(name, run(device, name), flush=True)
