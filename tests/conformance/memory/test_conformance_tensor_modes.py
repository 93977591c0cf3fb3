"""cp.async.bulk.tensor in the modes im2col, gather4 and scatter4, with interleaved layouts, packed
elements and swizzles of larger atoms, on both backends against NumPy.
"""

import dataclasses
import random

import numpy as np
import pytest
from conformance.memory.test_conformance_tensor_copies import (
    BLOCK,
    SHARED_BYTES,
    TENSOR_BYTES,
    interpret_map,
    kernel_of,
    random_first,
    random_map,
    run_copy,
)

from support.execution import prover
from support.execution.both_backends import compiler
from support.oracles.tensor_boxes import DTYPES, SPANS, TensorMap, columns, four_rows
from vgpu_sim.exec.errors import KernelError

ACCESS = {"im2col": 1, "im2col_no_offs": 1, "im2col::w": 2, "im2col::w::128": 3}


def random_image(draw: random.Random, rank: int, mode: str, room: int = SHARED_BYTES) -> TensorMap:
    """Return a map of images, of which a copy of ``mode`` moves at most ``room`` bytes."""
    type_ = draw.choice(tuple(DTYPES))
    item, swizzle = DTYPES[type_].itemsize, draw.randrange(4)
    if mode.startswith("im2col::w"):
        swizzle = draw.choice((2, 3)) if mode == "im2col::w" else 2
    channels = draw.randrange(16, min(SPANS[swizzle] or 64, 64) + 1, 16) // item
    sizes, strides = [draw.randrange(1, 1 + 80 // item)], list[int]()
    steps, whole = [draw.randrange(1, 9)], (sizes[0] * item + 15) & -16
    for n in range(rank - 1):
        whole += 16 * draw.randrange(2)
        strides.append(whole)
        sizes.append(draw.randrange(2, 12 if rank == 3 or n == 0 else 4))
        steps.append(draw.choice((1, 1, 2, 3)) if n < rank - 2 else 1)
        whole *= sizes[-1]
    if whole > TENSOR_BYTES:
        return random_image(draw, rank, mode, room)
    lower = tuple(draw.randrange(-2, 2) for _ in range(rank - 2))
    upper = tuple(draw.randrange(-2, 3) for _ in range(rank - 2))
    pitch = SPANS[swizzle] or channels * item
    pixels = draw.randrange(1, min(60, room // pitch - 4) + 1)
    fill = int(type_ in (6, 7, 9, 10) and draw.random() < 0.5)
    shape = (tuple(sizes), tuple(strides), (channels,), tuple(steps))
    columns_of = (ACCESS[mode], pixels, lower, upper)
    return TensorMap(0, type_, *shape, swizzle, fill, 0, 0, *columns_of)


def random_pixel(draw: random.Random, tensor: TensorMap, low: int = -3) -> list[int]:
    others = [draw.randrange(low, size + 2) for size in tensor.sizes[1:]]
    return [random_first(draw, tensor), *others]


def _check_load(tensor: TensorMap, mode: str, at: list[int], rows, given: list[int]) -> None:
    """Load rows, whose coordinates in dimension 1 and later the caller states."""
    draw = random.Random(str(tensor))
    rank = len(tensor.sizes)
    data = draw.randbytes(TENSOR_BYTES)
    wanted = bytearray(SHARED_BYTES)
    for place, offset in tensor.items(at[0], rows, 0):
        element = tensor.filling() if offset is None else data[offset : offset + tensor.item]
        wanted[place : place + len(element)] = element
    size = len(rows) * tensor.row_items * tensor.item
    module = kernel_of(rank, "load", mode)
    _, image = run_copy(module, tensor, [*at, *given], data, bytes(SHARED_BYTES), size)
    assert image == bytes(wanted), (tensor, at, given)


def _check_store(tensor: TensorMap, mode: str, at: list[int], rows) -> None:
    draw = random.Random(str(tensor))
    image, data = draw.randbytes(SHARED_BYTES), draw.randbytes(TENSOR_BYTES)
    wanted = bytearray(data)
    for place, offset in tensor.items(at[0], rows, 0):
        if offset is not None:
            wanted[offset : offset + tensor.item] = image[place : place + tensor.item]
    found, _ = run_copy(kernel_of(len(tensor.sizes), "store", mode), tensor, at, data, image)
    assert found == bytes(wanted), (tensor, at)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_im2col_loads_pixels_of_a_bounding_box(rank: int) -> None:
    draw, module = random.Random(rank), kernel_of(rank, "load", "im2col")
    assert prover.prove(compiler().emit_llvm(module, module.functions[0], BLOCK, None)) > 9
    for _ in range(15):
        tensor = random_image(draw, rank, "im2col")
        at, offsets = random_pixel(draw, tensor), [draw.randrange(4) for _ in range(rank - 2)]
        _check_load(tensor, "im2col", at, columns(tensor, at, offsets), offsets)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_im2col_stores_pixels(rank: int) -> None:
    draw = random.Random(rank + 5)
    for _ in range(10):
        tensor = random_image(draw, rank, "im2col_no_offs")
        at = random_pixel(draw, tensor)
        _check_store(tensor, "im2col_no_offs", at, columns(tensor, at, [0] * (rank - 2)))


@pytest.mark.parametrize(("mode", "rank"), [("im2col::w", 4), ("im2col::w", 5), ("im2col::w", 3)])
def test_wide_im2col_adds_a_halo_at_the_end(mode: str, rank: int) -> None:
    draw = random.Random(rank + 9)
    for _ in range(10):
        tensor = random_image(draw, rank, mode)
        halo, offset = draw.randrange(4), draw.randrange(3)
        at = random_pixel(draw, tensor)
        _check_load(tensor, mode, at, columns(tensor, at, [offset], halo), [halo, offset])


def test_wide_im2col_of_128_pixels_adds_halos_of_groups() -> None:
    draw = random.Random(1)
    for _ in range(6):
        tensor = dataclasses.replace(random_image(draw, 4, "im2col::w::128"), swizzle=1)
        tensor = dataclasses.replace(tensor, box=(32 // tensor.item,), pixels=0)
        halo, offset = draw.randrange(4), draw.randrange(3)
        at = random_pixel(draw, tensor)
        rows = columns(tensor, at, [offset], halo)
        assert len(rows) == 128 + 4 * halo
        _check_load(tensor, "im2col::w::128", at, rows, [halo, offset])


def test_four_rows_are_gathered_and_scattered() -> None:
    draw = random.Random(4)
    for number in range(20):
        tensor = random_map(draw, 2, tuple(DTYPES))
        tensor = dataclasses.replace(tensor, box=(tensor.box[0], 1))
        places = [draw.randrange(-2, tensor.sizes[1] + 2) for _ in range(4)]
        at = [draw.randrange(-3, tensor.sizes[0] + 2), *places]
        if number % 2 and len(set(places)) == 4:
            _check_store(tensor, "tile::scatter4", at, four_rows(places))
        else:
            _check_load(tensor, "tile::gather4", at, four_rows(places), [])


@pytest.mark.parametrize("atomicity", [1, 2, 3])
def test_larger_atoms_are_swizzled(atomicity: int) -> None:
    draw = random.Random(atomicity)
    for _ in range(12):
        tensor = dataclasses.replace(
            random_map(draw, 3, tuple(DTYPES)), swizzle=3, atomicity=atomicity
        )
        at = [random_first(draw, tensor), draw.randrange(-1, 2), draw.randrange(2)]
        rows = tensor.rows(at)
        if tensor.row_items * tensor.item > 128 or len(rows) * 128 > SHARED_BYTES:
            continue
        _check_load(tensor, "tile", at, rows, [])
        if atomicity != 2:
            at = [max(0, one) for one in at]
            _check_store(tensor, "tile", at, tensor.rows(at))


@pytest.mark.parametrize("interleave", [1, 2])
def test_interleaved_layouts_have_slices_of_channels(interleave: int) -> None:
    """An image of each slice follows the previous one: NC/8HWC8 for halves."""
    draw = random.Random(interleave)
    slice_bytes = 8 << interleave
    for rank in (3, 4, 4, 5, 5):
        type_ = draw.choice((0, 2, 6))
        item = DTYPES[type_].itemsize
        slices, sizes = draw.randrange(1, 4), [draw.randrange(2, 4) for _ in range(rank - 1)]
        strides = [slice_bytes]
        for size in sizes[:-2]:
            strides.append(strides[-1] * size)
        strides.append(strides[-1] * sizes[-2] * slices)
        channels = slices * slice_bytes // item - draw.randrange(2)
        box = (draw.choice((16, 32)) // item, *(draw.randrange(1, 3) for _ in sizes))
        tensor = TensorMap(
            0, type_, (channels, *sizes), tuple(strides), box, (1,) * rank, 1, 0, interleave
        )
        at = [16 // item * draw.randrange(-1, 3), *(draw.randrange(-1, 2) for _ in sizes)]
        _check_load(tensor, "tile", at, tensor.rows(at), [])
        at = [max(0, one) for one in at]
        _check_store(tensor, "tile", at, tensor.rows(at))


@pytest.mark.parametrize("type_", [13, 14, 15])
def test_packed_elements(type_: int) -> None:
    draw = random.Random(type_)
    padded = type_ != 13
    for _ in range(10):
        swizzle = draw.choice((0, 3))
        width = 128 if padded else 32 * draw.randrange(1, 9)
        sizes = (128 * draw.randrange(1, 3) if padded else 2 * draw.randrange(1, 200), 5)
        stride = 32 * draw.randrange(6, 9)
        steps, box = (1, draw.choice((1, 2))), (width, draw.randrange(1, 6))
        tensor = TensorMap(0, type_, sizes, (stride,), box, steps, swizzle)
        at = [128 * draw.randrange(-1, 2) if padded else 2 * draw.randrange(-20, 99), 0]
        at[1] = draw.randrange(-2, 4)
        _check_load(tensor, "tile", at, tensor.rows(at), [])
        if type_ == 13:
            at = [max(0, one) for one in at]
            _check_store(tensor, "tile", at, tensor.rows(at))


def test_a_store_packs_elements_of_6_bits() -> None:
    draw = random.Random(6)
    tensor = TensorMap(0, 15, (256, 4), (192,), (128, 3), (1, 1), 3)
    image, data = draw.randbytes(SHARED_BYTES), draw.randbytes(TENSOR_BYTES)
    at = [128, 2]
    wanted = bytearray(data)
    for place, offset in tensor.items(at[0], tensor.rows(at), 0):
        if offset is not None:
            whole = sum((image[place + n] & 0x3F) << 6 * n for n in range(16))
            wanted[offset : offset + 12] = whole.to_bytes(12, "little")
    assert wanted != data
    found, _ = run_copy(kernel_of(2, "store"), tensor, at, data, image)
    assert found == bytes(wanted)


@pytest.mark.parametrize("type_", [6, 10])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_minimum_and_maximum_of_halves(type_: int, operation: str) -> None:
    draw = random.Random(type_)
    kind = np.float16 if type_ == 6 else np.uint16
    for mode in ("tile", "im2col_no_offs"):
        numbers = np.array([draw.randrange(-64, 65) for _ in range(8192)], np.float32)
        halves = numbers.astype(np.float16) if type_ == 6 else numbers.view(np.uint32) >> 16
        data, image = halves.astype(kind).tobytes(), halves[::-1].astype(kind).tobytes()[:8192]
        shape = ((5, 4, 3), (16, 64), (8, 2, 3), (1, 1, 1))
        tensor, at = TensorMap(0, type_, *shape), [0, 0, 0]
        rows = tensor.rows(at)
        if mode != "tile":
            tensor = dataclasses.replace(tensor, access=1, pixels=9, lower=(0,), upper=(0,))
            rows = columns(tensor, at, [0])
        wanted = np.frombuffer(data, kind).copy()
        for place, offset in tensor.items(at[0], rows, 0):
            if offset is not None:
                pair = [wanted[offset // 2], np.frombuffer(image, kind, 1, place)[0]]
                values = [float(_number(one, type_)) for one in pair]
                better = (min if operation == "min" else max)(values)
                wanted[offset // 2] = pair[values.index(better)]
        found, _ = run_copy(kernel_of(3, operation, mode), tensor, at, data, image)
        assert found == wanted.tobytes()


def _number(bits, type_: int):
    return bits if type_ == 6 else np.uint32(int(bits) << 16).view(np.float32)


@pytest.mark.parametrize(
    ("mode", "changes"),
    [
        ("im2col", {82: 0}), ("im2col", {82: 2}), ("im2col", {84: 0, 85: 0}), ("im2col", {85: 4}),
        ("im2col", {76: 16}), ("im2col", {77: 3}), ("tile", {82: 1}), ("tile", {76: 14}),
        ("tile", {76: 13, 79: 1}), ("tile", {78: 2, 80: 1}), ("tile", {80: 4, 78: 3}),
        ("tile", {77: 1, 70: 2}), ("im2col::w", {77: 1}), ("im2col::w", {82: 3}),
    ],
    ids=str,
)  # fmt: skip
def test_a_map_that_no_copy_can_perform_ends_the_kernel(mode: str, changes: dict) -> None:
    tensor = TensorMap(0, 2, (32, 4, 4), (128, 512), (8, 2, 2), (1, 1, 1), 0)
    if mode != "tile":
        corners = ((0,), (0,))
        tensor = dataclasses.replace(tensor, access=ACCESS[mode], pixels=4)
        tensor = dataclasses.replace(tensor, lower=corners[0], upper=corners[1])

    offsets = [0] * {"tile": 0, "im2col": 1}.get(mode, 2)
    with pytest.raises(KernelError, match="trap"):
        interpret_map(kernel_of(3, "load", mode), tensor, changes, [0, 0, 0, *offsets])
