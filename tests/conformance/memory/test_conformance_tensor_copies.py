"""cp.async.bulk.tensor on both backends, against NumPy.

``TESSERA_TENSOR_COPIES`` is the number of random maps for each rank and direction.
"""

import ctypes
import dataclasses
import functools
import os
import random
import struct

import numpy as np
import pytest

from support.execution import both_backends, native_launch, prover
from support.execution.both_backends import compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from support.oracles.tensor_boxes import DTYPES, SPANS, TensorMap
from vgpu_sim.exec.errors import KernelError, Trap
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module, TrapCause

BLOCK = (32, 1, 1)
_COPIES = os.environ.get("TESSERA_TENSOR_COPIES")
SHARED_BYTES = 8 << 10
TENSOR_BYTES = 1 << 14
_REGISTERS = f"""
    .reg .b64 %m, %o; .reg .b16 %x<3>; .reg .b32 %t, %s, %k, %c<5>; .reg .pred %p, %q;
    .shared .align 1024 .b8 sm[{SHARED_BYTES}]; .shared .b64 bar;
"""
_FLOATS = {6: "f2", 7: "f4", 9: "f8"}


def operands_of(rank: int, mode: str, direction: str = "load") -> tuple[int, int]:
    """Return the number of coordinates of an instruction, and of the numbers that follow them."""
    if mode in ("tile::gather4", "tile::scatter4"):
        return 5, 0
    if not mode.startswith("im2col") or direction not in ("load", "begin"):
        return rank, 0
    return rank, rank - 2 if mode == "im2col" else 2


@functools.cache
def kernel_of(rank: int, direction: str, mode: str = "tile", place: int = 0) -> Module:
    """Return a kernel that loads a box to shared memory and stores all shared memory at ``po``; or
    that loads all shared memory from there, and stores or reduces a box. ``begin`` loads a box and
    does not wait for it. In other modes than ``tile``, the operands that follow the coordinates
    are parameters as well. The box begins at ``place`` in shared memory.
    """
    given, more = operands_of(rank, mode, direction)
    coordinates = ", ".join(f"%c{n}" for n in range(given))
    offsets = "".join(f", %x{n}" for n in range(more))
    offsets = f", {{{offsets[2:]}}}" if offsets else ""
    box = f"[%m, {{{coordinates}}}]"
    loads = "".join(f"ld.param.u32 %c{n}, [p{n}];" for n in range(given))
    loads += "".join(f"ld.param.u16 %x{n}, [p{given + n}];" for n in range(more))
    image = "ld.shared.b32 %k, [%s]; st.global.b32 [%o], %k;"
    if direction not in ("load", "begin"):
        image = "ld.global.b32 %k, [%o]; st.shared.b32 [%s], %k;"
    everything = f"""
        mov.u32 %s, sm; mad.lo.u32 %s, %t, 4, %s; mad.wide.u32 %o, %t, 4, %o;
        again: {image}
        add.u32 %s, %s, 128; add.u64 %o, %o, 128; mov.u32 %k, sm; sub.u32 %k, %s, %k;
        setp.lt.u32 %q, %k, {SHARED_BYTES}; @%q bra again; bar.sync 0;
    """
    start = f"""
        ld.param.u64 %o, [po]; mov.b64 %m, map; cvta.param.u64 %m, %m; mov.u32 %t, %tid.x;
        setp.eq.u32 %p, %t, 0; {loads}
    """
    if direction in ("load", "begin"):
        body = f"""{start}
            @%p mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
            ld.param.u32 %k, [bytes];
            @%p mbarrier.arrive.expect_tx.shared.b64 _, [bar], %k;
            @%p cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes
                [sm+{place}], {box}, [bar]{offsets};
            {"bra over;" if direction == "begin" else ""}
            ask: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra ask;
            over: {everything}"""
    else:
        name, operation = "cp.async", ""
        if direction != "store":
            name, operation = "cp.reduce.async", f".{direction}"
        body = f"""{start} {everything}
            @%p {name}.bulk.tensor.{rank}d.global.shared::cta{operation}.{mode}.bulk_group
                {box}, [sm+{place}];
            @%p cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0;"""
    parameters = ".param .align 64 .b8 map[128], .param .u64 po, .param .u32 bytes"
    parameters += "".join(f", .param .u32 p{n}" for n in range(given + more))
    return compile_verified(kernel(body, parameters, registers=_REGISTERS))


def random_map(draw: random.Random, rank: int, types: tuple[int, ...]) -> TensorMap:
    type_ = draw.choice(types)
    item, swizzle = DTYPES[type_].itemsize, draw.randrange(4)
    box = [draw.randrange(16, (SPANS[swizzle] or 256) + 1, 16) // item]
    steps, rows = [draw.randrange(1, 9)], 1
    sizes, strides = [draw.randrange(1, 1 + 300 // item)], list[int]()
    whole = (sizes[0] * item + 15) & -16
    for _ in range(rank - 1):
        step, count = draw.choice((1, 1, 2, 3)), draw.randrange(1, max(2, min(6, 32 // rows)))
        rows *= count
        box.append((count - 1) * step + draw.randrange(1, step + 1))
        steps.append(step)
        whole += 16 * draw.randrange(2)
        strides.append(whole)
        sizes.append(draw.randrange(1, 6))
        whole *= sizes[-1]
    if whole > TENSOR_BYTES:
        return random_map(draw, rank, types)
    fill = int(type_ in (*_FLOATS, 10) and draw.random() < 0.5)
    shape = (tuple(sizes), tuple(strides), tuple(box), tuple(steps))
    return TensorMap(0, type_, *shape, swizzle, fill)


def random_first(draw: random.Random, tensor: TensorMap, least: int = -1) -> int:
    """Return a coordinate of dimension 0 that is a multiple of 16 bytes, as copies require."""
    step = 16 // tensor.item
    return step * draw.randrange(least, tensor.sizes[0] // step + 2)


def _random_place(draw: random.Random, tensor: TensorMap, *, stores: bool = False) -> list[int]:
    pairs = zip(tensor.box, tensor.sizes, strict=True)
    at = [draw.randrange(0 if stores else -count, size + 2) for count, size in pairs]
    first = 0 if draw.random() < 0.5 else random_first(draw, tensor, 0 if stores else -1)
    return [first, *at[1:]]


def run_copy(
    module: Module,
    tensor: TensorMap,
    at: list[int],
    data: bytes,
    image: bytes,
    expected_bytes: int | None = None,
) -> list[bytes]:
    """Return the tensor and the image of shared memory as the kernel leaves them."""
    if expected_bytes is None:
        expected_bytes = tensor.transaction_bytes
    bench = both_backends.Bench(bytes(256), data, image)
    try:
        segment, address, out = bench.addresses()
        whole = dataclasses.replace(tensor, address=address)
        parameters = whole.encode() + struct.pack("<QI", out, expected_bytes)
        parameters += struct.pack(f"<{len(at)}i", *at)
        expected = bench.interpret(module, (1, 1, 1), BLOCK, parameters, segment)[1:]
        found = bench.execute(module, (1, 1, 1), BLOCK, parameters, None, segment)[1:]
        assert found == expected
        return expected
    finally:
        bench.close()


def interpret_map(
    module: Module, tensor: TensorMap, changes: dict[int, int], at: list[int]
) -> None:
    """Interpret a load whose map has other bytes at some offsets."""
    bench = both_backends.Bench(bytes(256), bytes(TENSOR_BYTES), bytes(SHARED_BYTES))
    try:
        segment, address, out = bench.addresses()
        encoded = bytearray(dataclasses.replace(tensor, address=address).encode())
        for offset, value in changes.items():
            encoded[offset] = value
        parameters = bytes(encoded) + struct.pack("<QI", out, 16)
        parameters += struct.pack(f"<{len(at)}i", *at)
        bench.interpret(module, (1, 1, 1), BLOCK, parameters, segment)
    finally:
        bench.close()


def _bytes(draw: random.Random, tensor: TensorMap, size: int) -> bytearray:
    """Return random elements: in types of floats small numbers, which sums do not round."""
    if tensor.type in _FLOATS:
        dtype = _FLOATS[tensor.type]
        numbers = [draw.randrange(-64, 65) for _ in range(size // tensor.item)]
        return bytearray(np.array(numbers, dtype).tobytes())
    return bytearray(draw.randbytes(size))


@pytest.mark.parametrize("rank", range(1, 6))
def test_loads(rank: int) -> None:
    draw, module = random.Random(rank), kernel_of(rank, "load")
    assert prover.prove(compiler().emit_llvm(module, module.functions[0], BLOCK, None)) > 9
    for _ in range(int(_COPIES or 25)):
        tensor = random_map(draw, rank, tuple(DTYPES))
        at, data = _random_place(draw, tensor), draw.randbytes(TENSOR_BYTES)
        wanted = bytearray(SHARED_BYTES)
        for place, offset in tensor.elements(at, 0):
            element = tensor.filling() if offset is None else data[offset : offset + tensor.item]
            wanted[place : place + tensor.item] = element
        _, image = run_copy(module, tensor, at, data, bytes(SHARED_BYTES))
        assert image == bytes(wanted), (tensor, at)


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("direction", ["store", "add", "max"])
def test_stores_and_reductions(rank: int, direction: str) -> None:
    draw, module = random.Random(7 + rank), kernel_of(rank, direction)
    types = {"store": tuple(DTYPES), "add": (2, 3, 4, 5, 6, 7, 9), "max": (2, 3, 4, 5)}[direction]
    for _ in range(int(_COPIES or 10)):
        tensor = random_map(draw, rank, types)
        at = _random_place(draw, tensor, stores=True)
        image = bytes(_bytes(draw, tensor, SHARED_BYTES))
        data = _bytes(draw, tensor, TENSOR_BYTES)
        wanted, dtype = bytearray(data), DTYPES[tensor.type]
        for place, offset in tensor.elements(at, 0):
            if offset is not None:
                new = np.frombuffer(image, dtype, 1, place)
                old = np.frombuffer(wanted, dtype, 1, offset)
                if direction != "store":
                    new = old + new if direction == "add" else np.maximum(old, new)
                wanted[offset : offset + tensor.item] = new.astype(dtype).tobytes()
        found, _ = run_copy(module, tensor, at, bytes(data), image)
        assert found == bytes(wanted), (tensor, at)


@pytest.mark.parametrize(
    ("offset", "value"),
    [(75, 5), (75, 0), (76, 16), (77, 1), (78, 4), (79, 2), (80, 1), (60, 0), (61, 9), (71, 0), (71, 9)],
)  # fmt: skip
def test_a_map_that_no_copy_can_perform_ends_the_kernel(offset: int, value: int) -> None:
    tensor = TensorMap(0, 2, (32, 4), (128,), (8, 2), (1, 1))
    with pytest.raises(KernelError, match="trap") as found:
        interpret_map(kernel_of(2, "load"), tensor, {offset: value}, [0, 0])
    assert kernel_of(2, "load").functions[0].code[found.value.word].cause is TrapCause.TENSOR_COPY


@pytest.mark.parametrize("direction", ["begin", "store", "add"])
@pytest.mark.parametrize(
    ("at", "place", "directions"),
    [
        ([8, 4], 0, ()),  # beyond the end is legal
        ([2, 0], 0, ("begin", "store", "add")),
        ([-4, 0], 0, ("store", "add")),
        ([0, -1], 0, ("store", "add")),
        ([0, 0], 64, ("begin", "store", "add")),
    ],
)
def test_copies_that_a_gpu_refuses_are_illegal_instructions(
    direction: str, at: list[int], place: int, directions: tuple[str, ...]
) -> None:
    tensor = TensorMap(0, 2, (32, 4), (128,), (8, 2), (1, 1))
    module = kernel_of(2, direction, place=place)
    bench = both_backends.Bench(bytes(256), bytes(TENSOR_BYTES), bytes(SHARED_BYTES))
    try:
        segment, address, out = bench.addresses()
        parameters = dataclasses.replace(tensor, address=address).encode()
        parameters += struct.pack("<QI2i", out, 64, *at)
        status = 715 if direction in directions else 0
        if status:
            with pytest.raises(Trap) as found:
                bench.interpret(module, (1, 1, 1), BLOCK, parameters, segment)
            instruction = module.functions[0].code[found.value.word]
            assert instruction.cause is TrapCause.TENSOR_COPY
        else:
            bench.interpret(module, (1, 1, 1), BLOCK, parameters, segment)
        function = module.functions[0]
        loaded = compiler().load(compiler().compile(module, function, BLOCK, None))
        launch = native_launch.context(
            bench.aperture, (1, 1, 1), BLOCK, segment, 0, local_bytes(function)
        )
        image = segment + next(
            v.offset for v in module.variables if v.name == function.parameter_image
        )
        ctypes.memmove(image, parameters, len(parameters))
        ended = native_launch.run(loaded, launch, parameters, [(0, 1)], function.shared_bytes)
        assert (ended.status, ended.signal) == (status, 0)
    finally:
        bench.close()
