"""Copies and fills of two and three dimensions, compared with numpy."""

import numpy as np
import pytest

INVALID_VALUE, INVALID_CONTEXT, NOT_SUPPORTED = 1, 201, 801
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
SHAPE = (4, 6, 64)  # layers, rows, bytes of a row


def side(parameters, prefix: str, kind, address: int, origin) -> None:
    z, y, x = origin
    values = {"XInBytes": x, "Y": y, "Pitch": SHAPE[2], "MemoryType": kind}
    values["Host" if int(kind) == HOST else "Device"] = address
    if hasattr(parameters, "Depth"):
        values |= {"Z": z, "Height": SHAPE[1]}
    else:
        values["Host" if int(kind) == HOST else "Device"] += z * SHAPE[1] * SHAPE[2]
    for name, value in values.items():
        setattr(parameters, prefix + name, value)


@pytest.fixture
def memory(cuda):
    """Two buffers of each kind: addresses, and functions that read them."""
    size = int(np.prod(SHAPE))
    plain = [np.zeros(size, np.uint8) for _ in range(2)]
    made = {"pageable": [one.ctypes.data for one in plain]}
    made["pinned"] = [int(cuda.cuMemHostAlloc(size, 0)) for _ in range(2)]
    made["managed"] = [int(cuda.cuMemAllocManaged(size, 1)) for _ in range(2)]
    made["device"] = [int(cuda.cuMemAlloc(size)) for _ in range(2)]
    made["_kept"] = plain
    return made


def contents(cuda, address: int) -> np.ndarray:
    out = np.zeros(int(np.prod(SHAPE)), np.uint8)
    cuda.cuMemcpy(out.ctypes.data, address, out.size)
    return out.reshape(SHAPE)


def fill(cuda, address: int, seed: int) -> np.ndarray:
    data = np.random.default_rng(seed).integers(0, 256, SHAPE, np.uint8)
    cuda.cuMemcpy(address, data.ctypes.data, data.size)
    return data


def kind_of(cuda, name: str, unified: bool):
    number = UNIFIED if unified else DEVICE if name == "device" else HOST
    return cuda.CUmemorytype(number)


@pytest.mark.parametrize("form", ["2D", "2DUnaligned", "2DAsync", "3D", "3DAsync", "3DPeer"])
def test_regions_are_copied_between_all_kinds_of_memory(cuda, memory, form):
    stream = cuda.cuStreamCreate(1)
    rng = np.random.default_rng(len(form))
    flat = form.startswith("2D")
    peer = "Peer" in form
    make = cuda.CUDA_MEMCPY2D if flat else cuda.CUDA_MEMCPY3D_PEER if peer else cuda.CUDA_MEMCPY3D
    names = [name for name in memory if not name.startswith("_")]
    for count, (source, target) in enumerate((a, b) for a in names for b in names):
        size = [int(rng.integers(1, n + 1)) for n in SHAPE]
        if flat:
            size[0] = 1
        if count % 5 == 0:
            size[1:] = SHAPE[1:]
        starts = [
            [int(rng.integers(0, n - s + 1)) for n, s in zip(SHAPE, size, strict=True)]
            for _ in range(2)
        ]
        given, before = fill(cuda, memory[source][0], count), fill(cuda, memory[target][1], 99)
        p = make()
        side(p, "src", kind_of(cuda, source, count % 2), memory[source][0], starts[0])
        side(p, "dst", kind_of(cuda, target, count % 3 == 0), memory[target][1], starts[1])
        p.WidthInBytes, p.Height = size[2], size[1]
        if not flat:
            p.Depth = size[0]
        if peer:
            p.srcContext = p.dstContext = cuda.cuCtxGetCurrent()
        function = getattr(cuda, f"cuMemcpy{form}")
        function(p, stream) if "Async" in form else function(p)
        cuda.cuCtxSynchronize()
        cut = [tuple(slice(a, a + s) for a, s in zip(start, size, strict=True)) for start in starts]
        before[cut[1]] = given[cut[0]]
        assert (contents(cuda, memory[target][1]) == before).all(), (source, target)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("form", ["", "Async"])
def test_rectangles_are_filled(cuda, memory, bits, form):
    element = bits // 8
    for name in ("device", "pinned", "managed"):
        expected = fill(cuda, memory[name][0], 1)
        value = 0x81726354 & ((1 << bits) - 1)
        for width, height in ((5, 7), (64 // element, 3)):
            start = memory[name][0] + 64 * 2
            arguments = (start, 64, value, width, height) + ((0,) if form else ())
            getattr(cuda, f"cuMemsetD2D{bits}{form}")(*arguments)
            rows = expected.reshape(-1, 64)
            cell = np.frombuffer(value.to_bytes(element, "little") * width, np.uint8)
            rows[2 : 2 + height, : width * element] = cell
        cuda.cuStreamSynchronize(0)
        assert (contents(cuda, memory[name][0]) == expected).all()


def test_wrong_regions_are_refused(cuda, memory):
    def code(**changes) -> int:
        p = cuda.CUDA_MEMCPY3D()
        side(p, "src", cuda.CUmemorytype(DEVICE), memory["device"][0], (0, 0, 0))
        side(p, "dst", cuda.CUmemorytype(DEVICE), memory["device"][1], (0, 0, 0))
        p.Depth, p.Height, p.WidthInBytes = SHAPE
        for name, value in changes.items():
            setattr(p, name, value)
        return cuda.code("cuMemcpy3D", p)

    assert code() == 0
    assert code(Height=0) == 0
    assert code(srcMemoryType=cuda.CUmemorytype(ARRAY)) == INVALID_VALUE  # without an array
    for wrong in (
        {"srcLOD": 1},
        {"srcPitch": 63},
        {"dstHeight": 5},
        {"srcZ": 1},
        {"dstY": 1, "dstHeight": 7},
        {"srcXInBytes": 1},
        {"srcDevice": 0},
        {"dstDevice": memory["device"][1] + 1},
        {"srcZ": 1 << 62},
        {"srcY": (1 << 64) - 1},
        {"Depth": 1 << 60},
        {"WidthInBytes": 1 << 63},
        {"dstMemoryType": cuda.CUmemorytype(HOST)},
    ):
        assert code(**wrong) == INVALID_VALUE, wrong
    pointer = memory["device"][0]
    assert cuda.code("cuMemsetD2D32", pointer, 62, 1, 2, 2) == INVALID_VALUE
    assert cuda.code("cuMemsetD2D8", pointer, 64, 1, 65, 2) == INVALID_VALUE
    assert cuda.code("cuMemsetD2D8", pointer, 64, 1, 64, 25) == INVALID_VALUE
    assert cuda.code("cuMemsetD2D8", pointer, 1 << 62, 1, 64, 9) == INVALID_VALUE


def test_a_pitch_is_a_multiple_of_512_bytes(cuda):
    pointer, pitch = cuda.cuMemAllocPitch(1000, 3, 4)
    assert (int(pitch), int(cuda.cuMemGetAddressRange(pointer)[1])) == (1024, 3072)
    assert cuda.code("cuMemAllocPitch", 1000, 3, 5) == INVALID_VALUE


def test_copies_between_contexts(cuda, memory):
    source = memory["device"][0]
    given = fill(cuda, source, 5)
    mine = cuda.cuCtxGetCurrent()
    other = cuda.cuCtxCreate(None, 0, 0)
    target = int(cuda.cuMemAlloc(given.size))
    cuda.cuMemcpyPeer(target, other, source, mine, given.size)
    assert (contents(cuda, target) == given).all()
    cuda.cuMemsetD8(target, 7, given.size)
    cuda.cuMemcpyPeerAsync(source, mine, target, other, given.size, 0)
    cuda.cuCtxSynchronize()
    assert (contents(cuda, source) == 7).all()
    assert cuda.code("cuMemcpyPeer", target, 0, source, mine, 1) == INVALID_CONTEXT
    cuda.cuCtxDestroy(other)


def test_batches_of_copies(cuda, memory):
    stream = cuda.cuStreamCreate(1)
    names = ("device", "pinned", "managed", "pageable")
    given = [fill(cuda, memory[name][0], n) for n, name in enumerate(names)]
    attributes = cuda.CUmemcpyAttributes()
    attributes.srcAccessOrder = cuda.CUmemcpySrcAccessOrder(1)
    during = cuda.CUmemcpyAttributes()
    during.srcAccessOrder = cuda.CUmemcpySrcAccessOrder(2)
    targets = [memory["device"][1], *(int(cuda.cuMemAlloc(given[0].size)) for _ in names[1:])]
    sources = [cuda.CUdeviceptr(memory[name][0]) for name in names]
    sizes = [given[0].size] * len(names)
    wrapped = [cuda.CUdeviceptr(one) for one in targets]
    batch = wrapped, sources, sizes, len(names), [attributes, during], [0, 2], 2
    cuda.cuMemcpyBatchAsync(*batch, stream)
    cuda.cuStreamSynchronize(stream)
    for target, data in zip(targets, given, strict=True):
        assert (contents(cuda, target) == data).all()
    assert cuda.code("cuMemcpyBatchAsync", *batch, 0) == INVALID_VALUE
    assert cuda.code("cuMemcpyBatchAsync", *batch[:5], [0, 0], 2, stream) == INVALID_VALUE


def test_batches_of_regions(cuda, memory):
    stream = cuda.cuStreamCreate(1)
    given = fill(cuda, memory["device"][0], 3)
    expected = fill(cuda, memory["pinned"][1], 4)
    operation = cuda.CUDA_MEMCPY3D_BATCH_OP()
    for operand, name, number in (("src", "device", 0), ("dst", "pinned", 1)):
        one = getattr(operation, operand)
        one.type = cuda.CUmemcpy3DOperandType(1)
        one.op.ptr.ptr = memory[name][number]
        one.op.ptr.rowLength, one.op.ptr.layerHeight = SHAPE[2], SHAPE[1]
    operation.extent.width, operation.extent.height, operation.extent.depth = 11, 4, 3
    operation.srcAccessOrder = cuda.CUmemcpySrcAccessOrder(3)
    cuda.cuMemcpy3DBatchAsync(1, [operation], 0, stream)
    cuda.cuStreamSynchronize(stream)
    expected[:3, :4, :11] = given[:3, :4, :11]
    assert (contents(cuda, memory["pinned"][1]) == expected).all()
    operation.src.type = cuda.CUmemcpy3DOperandType(2)
    assert cuda.code("cuMemcpy3DBatchAsync", 1, [operation], 0, stream) == NOT_SUPPORTED
