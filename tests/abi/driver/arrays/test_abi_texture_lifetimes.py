"""Destruction of texture and surface objects while work is enqueued."""

import ctypes
import threading

import pytest

INVALID_VALUE = 1
LINEAR, F32 = 2, 32
KEPT, BYTES = 16384, 1024  # descriptors that a context keeps, and the memory of one


class Gate:
    """A word in pinned memory for which a stream waits."""

    def __init__(self, cuda) -> None:
        self.stream = cuda.cuStreamCreate(1)
        self.word = int(cuda.cuMemHostAlloc(4, 0))
        ctypes.memset(self.word, 0, 4)
        cuda.cuStreamWaitValue32(self.stream, self.word, 1, 0)

    def open(self) -> None:
        ctypes.memset(self.word, 1, 1)


@pytest.fixture
def create(cuda):
    """Create a texture of linear memory."""
    one = cuda.CUDA_RESOURCE_DESC()
    one.resType = cuda.CUresourcetype(LINEAR)
    one.res.linear.devPtr, one.res.linear.sizeInBytes = int(cuda.cuMemAlloc(64)), 64
    one.res.linear.format, one.res.linear.numChannels = cuda.CUarray_format(F32), 1
    sampling = cuda.CUDA_TEXTURE_DESC()
    return lambda: int(cuda.cuTexObjectCreate(one, sampling, None))


@pytest.fixture
def gate(cuda):
    made = Gate(cuda)
    yield made
    made.open()


def first_bytes(cuda, address: int) -> bytes:
    data = bytearray(64)
    place = (ctypes.c_char * len(data)).from_buffer(data)
    cuda.cuMemcpyDtoH(ctypes.addressof(place), address, len(data))
    return bytes(data)


def test_destroying_does_not_wait_and_keeps_what_kernels_may_read(cuda, create, gate):
    handle = create()
    before = first_bytes(cuda, handle)
    cuda.cuTexObjectDestroy(handle)
    assert cuda.code("cuTexObjectDestroy", handle) == INVALID_VALUE
    others = [create() for _ in range(20)]
    assert handle not in others
    assert first_bytes(cuda, handle) == before
    gate.open()
    cuda.cuStreamSynchronize(gate.stream)
    place = ctypes.create_string_buffer(64)
    assert cuda.code("cuMemcpyDtoH", ctypes.addressof(place), handle, 64) == INVALID_VALUE  # freed


def test_destroyed_objects_keep_a_bounded_amount_of_memory(cuda, create, gate):
    create()
    free = cuda.cuMemGetInfo()[0]
    for _ in range(KEPT):
        cuda.cuTexObjectDestroy(create())
    kept = free - cuda.cuMemGetInfo()[0]
    assert KEPT * BYTES * 0.9 < kept <= KEPT * BYTES + (2 << 20)
    last = create()
    opening = threading.Timer(0.2, gate.open)
    opening.start()
    cuda.cuTexObjectDestroy(last)  # waits
    assert opening.finished.is_set()
    assert free - cuda.cuMemGetInfo()[0] <= 2 << 20


def test_destroyed_objects_end_with_their_context(cuda, create):
    free = cuda.cuMemGetInfo()[0]
    context = cuda.cuCtxCreate(None, 0, 0)
    one = cuda.CUDA_RESOURCE_DESC()
    one.resType = cuda.CUresourcetype(LINEAR)
    one.res.linear.devPtr, one.res.linear.sizeInBytes = int(cuda.cuMemAlloc(64)), 64
    one.res.linear.format, one.res.linear.numChannels = cuda.CUarray_format(F32), 1
    gate = Gate(cuda)
    cuda.cuTexObjectDestroy(cuda.cuTexObjectCreate(one, cuda.CUDA_TEXTURE_DESC(), None))
    gate.open()
    cuda.cuCtxDestroy(context)
    assert cuda.cuMemGetInfo()[0] == free
    cuda.cuTexObjectDestroy(create())
