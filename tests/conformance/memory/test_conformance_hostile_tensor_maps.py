"""Tensor maps whose bytes a program chose: a copy stays near the aperture, whatever they are."""

import ctypes
import dataclasses
import os
import random
import signal
import struct
from collections import Counter

import pytest
from conformance.memory.test_conformance_tensor_copies import (
    BLOCK,
    SHARED_BYTES,
    TENSOR_BYTES,
    kernel_of,
    operands_of,
    random_map,
)
from conformance.memory.test_conformance_tensor_modes import ACCESS, random_image

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compiler
from support.oracles.tensor_boxes import DTYPES
from vgpu_sim.exec.errors import KernelError
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

_MAPS = int(os.environ.get("TESSERA_HOSTILE_MAPS", "200"))
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)
_ADDRESSES = (0, 16, 1 << 40, (1 << 64) - 16, 1 << 63, 0x7FFF_FFFF_FFF0, (1 << 47) + 256)


_LAYOUTS = {76: (13, 14, 15), 77: (1, 2), 78: (3,), 80: (1, 2, 3)}
"""Bytes of a map that select packed elements, interleaved layouts and larger atoms."""


def _valid_map(draw: random.Random, rank: int, mode: str) -> bytes:
    """Return a valid map for ``mode``, often with an unusual layout."""
    if mode.startswith("im2col"):
        tensor = random_image(draw, rank, mode)
        if draw.random() < 0.3:
            tensor = dataclasses.replace(tensor, pixels=draw.choice((1, 200, 1024)))
    else:
        tensor = random_map(draw, rank, tuple(DTYPES))
        if mode in ("tile::gather4", "tile::scatter4"):
            tensor = dataclasses.replace(tensor, box=(tensor.box[0], 1))
    if draw.random() < 0.2:
        tensor = dataclasses.replace(tensor, type=draw.choice((13, 14, 15)), fill=0)
        sizes = (256, *tensor.sizes[1:])
        tensor = dataclasses.replace(tensor, box=(128, *tensor.box[1:]), sizes=sizes)
    encoded = bytearray(tensor.encode())
    if draw.random() < 0.3:
        offset = draw.choice(tuple(_LAYOUTS))
        encoded[offset] = draw.choice(_LAYOUTS[offset])
        encoded[78] = 3 if offset == 80 else encoded[78]
        encoded[70] = 1
    return bytes(encoded)


def _hostile_map(draw: random.Random, rank: int, address: int, mode: str) -> bytes:
    """Return a map with some fields of a valid one, or none."""
    kind = draw.randrange(8)
    if kind == 0:
        return draw.randbytes(82) + bytes([ACCESS.get(mode, 0)]) + draw.randbytes(45)
    encoded = bytearray(_valid_map(draw, rank, mode))
    encoded[:8] = address.to_bytes(8, "little")
    if kind in (1, 2):
        encoded[:8] = draw.choice((*_ADDRESSES, draw.getrandbits(64) & ~15)).to_bytes(8, "little")
    if kind in (2, 3, 4):  # strides
        for n in range(4):
            stride = draw.choice((0, 16, 1 << 40, draw.getrandbits(64) & ~15, (1 << 64) - 32))
            encoded[8 + 8 * n : 16 + 8 * n] = stride.to_bytes(8, "little")
    if kind in (3, 5):  # sizes
        encoded[40:60] = struct.pack(
            "<5I", *(draw.choice((0, draw.getrandbits(32), 2**32 - 1)) for _ in range(5))
        )
    if kind == 6 and mode.startswith("im2col"):  # pixels and corners
        encoded[84:98] = draw.choice((draw.randbytes(14), b"\x00\x04" + draw.randbytes(12)))
    for _ in range(draw.randrange(3)):
        encoded[draw.randrange(98)] = draw.choice(_EXTREMES)
    return bytes(encoded)


def _offsets(draw: random.Random, count: int) -> list[int]:
    return [draw.choice((0, 1, 2, draw.randrange(1 << 16))) for _ in range(count)]


def _coordinates(draw: random.Random, rank: int) -> list[int]:
    edges = (0, -1, 1, 5, -(2**31), 2**31 - 1, draw.randrange(-(2**31), 2**31))
    choices = edges if draw.random() < 0.3 else (0, 16, 2**31 - 16, draw.randrange(2**31) & ~15)
    return [draw.choice(choices) for _ in range(rank)]


@pytest.mark.parametrize(
    ("direction", "mode"),
    [
        *((direction, "tile") for direction in ("begin", "store", "add", "max")),
        ("begin", "tile::gather4"), ("store", "tile::scatter4"), ("begin", "im2col"),
        ("store", "im2col_no_offs"), ("begin", "im2col::w"), ("begin", "im2col::w::128"),
    ],
)  # fmt: skip
def test_no_access_leaves_the_aperture(direction: str, mode: str) -> None:
    draw, ends = random.Random(direction + mode), Counter[str]()
    ranks = (3, 4, 5) if mode.startswith("im2col") else (1, 2, 3, 5)
    for rank in (2,) if mode.endswith("4") else ranks:
        module = kernel_of(rank, direction, mode)
        given, more = operands_of(rank, mode, direction)
        function = module.functions[0]
        text = compiler().emit_llvm(module, function, BLOCK, None)
        assert prover.prove(text) > 9
        loaded = compiler().load(compiler().compile(module, function, BLOCK, None))
        bench = Bench(bytes(256), bytes(TENSOR_BYTES), bytes(SHARED_BYTES))
        try:
            segment, address, out = bench.addresses()
            place = segment + next(
                v.offset for v in module.variables if v.name == function.parameter_image
            )
            first = bench.aperture.base - native_launch.BEFORE_BYTES
            last = first + bench.aperture.reserved_bytes
            launch = native_launch.context(
                bench.aperture, (1, 1, 1), BLOCK, segment, 0, local_bytes(function)
            )
            for number in range(_MAPS // 4):
                encoded = _hostile_map(draw, rank, address, mode)
                parameters = encoded + struct.pack("<QI", out, draw.choice((0, 16, 512)))
                parameters += struct.pack(f"<{given}i", *_coordinates(draw, given))
                parameters += struct.pack(f"<{more}i", *_offsets(draw, more))
                ctypes.memmove(place, parameters, len(parameters))
                ended = native_launch.run(
                    loaded, launch, parameters, [(0, 1)], function.shared_bytes
                )
                assert ended.signal in (0, signal.SIGSEGV, signal.SIGBUS), ended
                outside = ended.signal and not first <= ended.address < last
                if outside or number % 25 == 0:
                    error = _interpret(bench, module, parameters, segment)
                    assert ("trap" in error) == bool(ended.status), encoded
                    assert not outside or "shared address" in error, error
                ends["signal" if ended.signal else f"status {ended.status}"] += 1
        finally:
            bench.close()
    assert len(ends) >= 3 - (
        mode == "im2col::w::128"
    )  # faults, traps, and copies that are performed
    assert min(ends.values()) > _MAPS // 50, ends


def _interpret(bench: Bench, module: Module, parameters: bytes, segment: int) -> str:
    """Return the error with which the interpreter ends the kernel; empty if there is none."""
    try:
        bench.interpret(module, (1, 1, 1), BLOCK, parameters, segment)
    except KernelError as error:
        return str(error)
    return ""
