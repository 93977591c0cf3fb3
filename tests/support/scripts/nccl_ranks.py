"""Ranks of NCCL communicators in one process, and between processes, by ``libnccl.so.2`` and ctypes.

``all``: every collective and message on all GPUs of the process, compared with numpy. ``rank FILE RANK
RANKS DEVICE ENDING``: one rank of a communicator whose id is in a file.
"""

import contextlib
import ctypes as c
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

cuda, nccl = c.CDLL("libcuda.so.1"), c.CDLL("libnccl.so.2")
nccl.ncclGetLastError.restype = c.c_char_p
SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE = range(5)
TYPES = dict(
    zip(range(9), ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"), strict=True)
)  # by ncclDataType_t
BFLOAT16, E4M3, E5M2 = 9, 10, 11
FLOAT = 7
CAPTURE_RELAXED = 2
MESSAGES = "ncclSend and ncclRecv"


class Id(c.Structure):
    _fields_ = [("internal", c.c_char * 128)]


def check(status: int) -> None:
    assert status == 0, (status, nccl.ncclGetLastError(None))


class Gpu:
    """A GPU's primary context."""

    def __init__(self, device: int) -> None:
        self._context = c.c_void_p()
        check(cuda.cuInit(0))
        check(cuda.cuDevicePrimaryCtxRetain(c.byref(self._context), device))
        self.enter()

    def enter(self) -> None:
        check(cuda.cuCtxSetCurrent(self._context))

    def put(self, array: np.ndarray) -> c.c_void_p:
        self.enter()
        address, size = c.c_void_p(), c.c_size_t(max(array.nbytes, 1))
        check(cuda.cuMemAlloc_v2(c.byref(address), size))
        check(
            cuda.cuMemcpyHtoD_v2(address, c.c_void_p(array.ctypes.data), c.c_size_t(array.nbytes))
        )
        return address

    def get(self, address: c.c_void_p, like: np.ndarray) -> np.ndarray:
        self.enter()
        array = np.empty_like(like)
        check(cuda.cuCtxSynchronize())
        check(
            cuda.cuMemcpyDtoH_v2(c.c_void_p(array.ctypes.data), address, c.c_size_t(array.nbytes))
        )
        return array

    def free(self, address: c.c_void_p) -> None:
        self.enter()
        check(cuda.cuMemFree_v2(address))


class Ranks:
    """A communicator of all GPUs of this process."""

    def __init__(self, count: int) -> None:
        handles = (c.c_void_p * count)()
        check(nccl.ncclCommInitAll(handles, count, None))
        self.gpus = [Gpu(device) for device in range(count)]
        self.comms = [c.c_void_p(handle) for handle in handles]
        self.count = count

    def run(
        self, name: str, sent: list[np.ndarray], like: np.ndarray, *arguments: Any
    ) -> list[np.ndarray]:
        """Call a function for each rank; return what each has received. ``arguments`` are those
        between the buffers and the communicator; a list has one for each rank.
        """
        sends = [gpu.put(array) for gpu, array in zip(self.gpus, sent, strict=True)]
        receives = [gpu.put(np.zeros_like(like)) for gpu in self.gpus]
        for rank, gpu in enumerate(self.gpus):
            gpu.enter()
            mine = [one[rank] if isinstance(one, list) else one for one in arguments]
            if name == MESSAGES:
                check(self._exchange(rank, sends[rank], receives[rank], *mine))
            else:
                check(nccl[name](sends[rank], receives[rank], *mine, self.comms[rank], None))
        found = [gpu.get(array, like) for gpu, array in zip(self.gpus, receives, strict=True)]
        for gpu, *arrays in zip(self.gpus, sends, receives, strict=True):
            for array in arrays:
                gpu.free(array)
        return found

    def _exchange(
        self, rank: int, send: c.c_void_p, receive: c.c_void_p, count: c.c_size_t, kind: int
    ) -> int:
        """Send a block to each rank, this one included, and receive one from each."""
        size = count.value * np.dtype(TYPES[kind]).itemsize
        check(nccl.ncclGroupStart())
        for peer in range(self.count):
            here, there = (c.c_void_p(one.value + peer * size) for one in (send, receive))
            check(nccl.ncclSend(here, count, kind, peer, self.comms[rank], None))
            check(nccl.ncclRecv(there, count, kind, peer, self.comms[rank], None))
        return int(nccl.ncclGroupEnd())


def compare_collectives(ranks: Ranks, kind: int, count: int) -> None:
    n, elements = ranks.count, c.c_size_t(count)
    generator = np.random.default_rng(count)
    least = 0 if TYPES[kind].startswith("u") else -4
    sent = [generator.integers(least, 5, n * count).astype(TYPES[kind]) for _ in range(n)]
    first = [array[:count] for array in sent]
    reductions = {
        SUM: lambda arrays: sum(arrays[1:], arrays[0]),
        PRODUCT: lambda arrays: np.multiply.reduce(arrays),
        MAXIMUM: lambda arrays: np.maximum.reduce(arrays),
        MINIMUM: lambda arrays: np.minimum.reduce(arrays),
    }

    def compare(name: str, expected: list[np.ndarray], *arguments: Any) -> None:
        for rank, found in enumerate(ranks.run(name, sent, sent[0], elements, kind, *arguments)):
            wanted = expected[rank]
            assert (found[: len(wanted)] == wanted).all(), (name, kind, count, rank)
            assert not found[len(wanted) :].any()

    nothing = first[0][:0]
    for op, reduce in reductions.items():
        total = reduce(first)
        compare("ncclAllReduce", [total] * n, op)
        compare("ncclReduce", [nothing] * (n - 1) + [total], op, n - 1)
        compare("ncclReduceScatter", np.split(reduce(sent), n), op)
    joined = np.concatenate(first)
    exchanged = [np.concatenate([np.split(array, n)[rank] for array in sent]) for rank in range(n)]
    compare("ncclAllGather", [joined] * n)
    compare("ncclBroadcast", [first[1]] * n, 1)
    compare("ncclGather", [joined] + [nothing] * (n - 1), 0)
    compare("ncclScatter", np.split(sent[1], n), 1)
    compare("ncclAlltoAll", exchanged)
    compare(MESSAGES, exchanged)


def values_of(kind: int) -> np.ndarray:
    """Return the values of all codes of a type narrower than 32 bits, as PTX ISA describes the formats."""
    exponent_bits, mantissa_bits = {6: (5, 10), BFLOAT16: (8, 7), E4M3: (4, 3), E5M2: (5, 2)}[kind]
    width = 1 + exponent_bits + mantissa_bits
    codes = np.arange(1 << width)
    exponents = codes >> mantissa_bits & (1 << exponent_bits) - 1
    fractions = (codes & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    scale = np.exp2(np.maximum(exponents, 1) - ((1 << exponent_bits - 1) - 1.0))
    values = np.where(codes >> width - 1, -1.0, 1.0) * scale * (fractions + (exponents > 0))
    if kind == E4M3:
        values[codes & 0x7F == 0x7F] = np.nan
    else:
        values[exponents == (1 << exponent_bits) - 1] = np.nan  # infinities are not compared
    return values


def compare_small_floats(ranks: Ranks) -> None:
    """Sums are the nearest values of the type, those with an even code of two."""
    for kind in (6, BFLOAT16, E4M3, E5M2):
        values = values_of(kind)
        dtype = "u2" if len(values) > 256 else "u1"
        finite = np.flatnonzero(np.isfinite(values))
        generator = np.random.default_rng(kind)
        sent = [generator.choice(finite, 20_000).astype(dtype) for _ in range(ranks.count)]
        sent[0][: len(finite)] = finite[:20_000]
        for other in sent[1:]:
            other[: len(finite)] = 0  # plus zero: the codes stay
        found = ranks.run("ncclAllReduce", sent, sent[0], c.c_size_t(20_000), kind, SUM)
        assert all((array == found[0]).all() for array in found)
        exact = values[sent[0]].astype("f4")
        for array in sent[1:]:
            exact = exact + values[array].astype("f4")
        limit = np.nanmax(values)
        inside = np.abs(exact) <= limit
        assert inside.mean() > 0.5
        got = values[found[0]][inside]
        order = np.sort(values[finite])
        places = np.clip(np.searchsorted(order, exact[inside]), 1, len(order) - 1)
        below, above = order[places - 1], order[places]
        nearest = np.minimum(np.abs(exact[inside] - below), np.abs(exact[inside] - above))
        assert (np.abs(got - exact[inside]) == nearest).all(), kind
        ties = np.abs(exact[inside] - below) == np.abs(exact[inside] - above)
        assert (found[0][inside][ties & (below != above)] & 1 == 0).all(), kind


def compare_averages_and_scalars(ranks: Ranks) -> None:
    n = ranks.count
    sent = [np.arange(7, dtype="f4") + rank for rank in range(n)]
    seven = c.c_size_t(7)
    for found in ranks.run("ncclAllReduce", sent, sent[0], seven, FLOAT, AVERAGE):
        assert (found == np.arange(7, dtype="f4") + (n - 1) / 2).all()
    scalars = [np.array([rank + 0.5], "f4") for rank in range(n)]
    held = [gpu.put(scalar) for gpu, scalar in zip(ranks.gpus, scalars, strict=True)]
    for in_host in (False, True):
        ops = [c.c_int() for _ in range(n)]
        for rank in range(n):
            at = c.c_void_p(scalars[rank].ctypes.data) if in_host else held[rank]
            comm, residence = ranks.comms[rank], int(in_host)
            check(nccl.ncclRedOpCreatePreMulSum(c.byref(ops[rank]), at, FLOAT, residence, comm))
        expected = sum(array * scalar for array, scalar in zip(sent, scalars, strict=True))
        for found in ranks.run("ncclAllReduce", sent, sent[0], seven, FLOAT, ops):
            assert (found == expected).all()
        for rank in range(n):
            check(nccl.ncclRedOpDestroy(ops[rank], ranks.comms[rank]))
            assert nccl.ncclRedOpDestroy(ops[rank], ranks.comms[rank]) == 4


def refuse_capture(ranks: Ranks) -> None:
    ranks.gpus[0].enter()
    stream, graph = c.c_void_p(), c.c_void_p()
    held = ranks.gpus[0].put(np.zeros(1, "f4"))
    check(cuda.cuStreamCreate(c.byref(stream), 1))
    check(cuda.cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED))
    assert nccl.ncclAllReduce(held, held, c.c_size_t(1), FLOAT, SUM, ranks.comms[0], stream) == 5
    check(cuda.cuStreamEndCapture(stream, c.byref(graph)))


def name_disagreements(ranks: Ranks) -> None:
    """Ranks that call different functions get an error, and their streams wait until they abort."""
    for rank, gpu in enumerate(ranks.gpus):
        held = gpu.put(np.zeros(4, "f4"))
        if rank == 0:
            check(nccl.ncclBroadcast(held, held, c.c_size_t(4), FLOAT, 0, ranks.comms[rank], None))
        else:
            check(
                nccl.ncclAllReduce(held, held, c.c_size_t(3), FLOAT, SUM, ranks.comms[rank], None)
            )
    status = c.c_int()
    for rank, gpu in enumerate(ranks.gpus):
        for _ in range(1500):
            check(nccl.ncclCommGetAsyncError(ranks.comms[rank], c.byref(status)))
            if status.value:
                break
            time.sleep(0.02)
        assert status.value in (5, 6), status
        gpu.enter()
        assert cuda.cuStreamQuery(None) == 600
    texts = [nccl.ncclGetLastError(comm).decode() for comm in ranks.comms]
    assert any("calls ncclBroadcast (count 4, type 7" in text for text in texts), texts
    for rank, gpu in enumerate(ranks.gpus):
        check(nccl.ncclCommAbort(ranks.comms[rank]))
        gpu.enter()
        check(cuda.cuCtxSynchronize())


def run_all() -> None:
    count = c.c_int()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGetCount(c.byref(count)))
    ranks = Ranks(count.value)
    for kind in TYPES:
        compare_collectives(ranks, kind, 5)
    compare_collectives(ranks, 8, 400_001)  # more than fits in the staging memory
    compare_small_floats(ranks)
    compare_averages_and_scalars(ranks)
    refuse_capture(ranks)
    name_disagreements(ranks)
    print("right")


def crowd(identity: Id) -> list[socket.socket]:
    """Connect to where the id leads, as strangers that send nothing, or something else."""
    family, port = (
        struct.unpack_from("=H", bytes(identity), 24)[0],
        struct.unpack_from("!H", bytes(identity), 26)[0],
    )
    size = 4 if family == socket.AF_INET else 16
    address = socket.inet_ntop(family, bytes(identity)[32 : 32 + size])
    strangers = []
    for number in range(300):  # more than a root keeps
        stranger = socket.socket(family)
        stranger.connect((address, port))
        with contextlib.suppress(ConnectionError):
            stranger.send(bytes(number % 3 * 40))
        strangers.append(stranger)
    return strangers


def run_rank(path: Path, rank: int, count: int, device: int, ending: str) -> None:
    """Join, split, and reduce; then ``end``, ``die``, or ``wait`` for a rank that died."""
    gpu, identity, comm = Gpu(device), Id(), c.c_void_p()
    if rank == 0:
        check(nccl.ncclGetUniqueId(c.byref(identity)))
        strangers = crowd(identity)
        path.with_suffix(".new").write_bytes(bytes(identity))
        path.with_suffix(".new").rename(path)
    while not path.exists():
        time.sleep(0.02)
    c.memmove(c.byref(identity), path.read_bytes(), 128)
    status = nccl.ncclCommInitRank(c.byref(comm), count, identity, rank)
    if status:
        print("init", status)
        return
    if rank == 0:
        for stranger in strangers:
            stranger.close()
    halves, color = c.c_void_p(), rank % 2
    check(nccl.ncclCommSplit(comm, color, -rank, c.byref(halves), None))
    found, members = c.c_int(), c.c_int()
    check(nccl.ncclCommUserRank(halves, c.byref(found)))
    check(nccl.ncclCommCount(halves, c.byref(members)))
    same = [other for other in range(count) if other % 2 == color]
    assert (found.value, members.value) == (same[::-1].index(rank), len(same))
    held, one = gpu.put(np.array([rank + 1], "f4")), c.c_size_t(1)
    for handle, expected in ((halves, sum(same) + len(same)), (comm, None)):
        check(nccl.ncclAllReduce(held, held, one, FLOAT, SUM, handle, None))
        total = gpu.get(held, np.zeros(1, "f4"))[0]
        assert expected is None or total == expected, total
    print("reduced", flush=True)
    if ending == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "wait":
        check(nccl.ncclAllReduce(held, held, one, FLOAT, SUM, comm, None))
        while not status:
            time.sleep(0.02)
            code = c.c_int()
            check(nccl.ncclCommGetAsyncError(comm, c.byref(code)))
            status = code.value
        print("error", status, nccl.ncclGetLastError(comm).decode())
        check(nccl.ncclCommAbort(comm))
        check(cuda.cuCtxSynchronize())
    else:
        check(nccl.ncclCommFinalize(comm))
        check(nccl.ncclCommDestroy(comm))
    check(nccl.ncclCommDestroy(halves))
    print("ended")


if __name__ == "__main__":
    if sys.argv[1] == "all":
        run_all()
    else:
        run_rank(Path(sys.argv[2]), *map(int, sys.argv[3:6]), sys.argv[6])
