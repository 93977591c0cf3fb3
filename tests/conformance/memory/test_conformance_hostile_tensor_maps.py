"""Tensor maps whose bytes a program chose: a copy stays near the aperture, whatever they are."""

import ctypes
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
    random_map,
)

from support.execution import native_launch
from support.execution.both_backends import Bench, compiler
from support.oracles.tensor_boxes import DTYPES
from support.proofs import clamp_proof
from vgpu_sim.exec.errors import KernelError
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

_MAPS = int(os.environ.get("TESSERA_HOSTILE_MAPS", "200"))
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)
_ADDRESSES = (0, 16, 1 << 40, (1 << 64) - 16, 1 << 63, 0x7FFF_FFFF_FFF0, (1 << 47) + 256)


def _hostile_map(draw: random.Random, rank: int, address: int) -> bytes:
    """Return a map with some fields of a valid one, or none."""
    kind = draw.randrange(8)
    if kind == 0:
        return draw.randbytes(128)
    encoded = bytearray(random_map(draw, rank, tuple(DTYPES)).encode())
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
    for _ in range(draw.randrange(3)):
        encoded[draw.randrange(82)] = draw.choice(_EXTREMES)
    return bytes(encoded)


def _coordinates(draw: random.Random, rank: int) -> list[int]:
    choices = (0, -1, 1, 5, -(2**31), 2**31 - 1, draw.randrange(-(2**31), 2**31))
    return [draw.choice(choices) for _ in range(rank)]


@pytest.mark.parametrize("direction", ["begin", "store", "add"])
def test_no_access_leaves_the_aperture(direction: str) -> None:
    draw, ends = random.Random(direction), Counter[str]()
    for rank in (1, 2, 3, 5):
        module = kernel_of(rank, direction)
        function = module.functions[0]
        text = compiler().emit_llvm(module, function, BLOCK, None)
        assert clamp_proof.prove(text) > 9
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
                encoded = _hostile_map(draw, rank, address)
                parameters = encoded + struct.pack("<QI", out, draw.choice((0, 16, 512)))
                parameters += struct.pack(f"<{rank}i", *_coordinates(draw, rank))
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
    assert len(ends) >= 3  # faults, traps, and copies that are performed
    assert min(ends.values()) > _MAPS // 50, ends


def _interpret(bench: Bench, module: Module, parameters: bytes, segment: int) -> str:
    """Return the error with which the interpreter ends the kernel; empty if there is none."""
    try:
        bench.interpret(module, (1, 1, 1), BLOCK, parameters, segment)
    except KernelError as error:
        return str(error)
    return ""
