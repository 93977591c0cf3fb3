"""Descriptors whose bytes a program chose: no access leaves the aperture, whatever they are."""

import os
import random
import signal
import struct
from collections import Counter

import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compiler
from support.execution.texture_kernels import DESCRIPTOR_BYTES, THREADS, WORDS, kernel_of
from support.oracles import random_textures
from support.oracles.textures import SURFACE, TEXTURE, Shape, Texture
from vgpu_sim.exec.errors import KernelError
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

BLOCK = (THREADS, 1, 1)
_ROUNDS = int(os.environ.get("TESSERA_HOSTILE_DESCRIPTORS", "60"))
_EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF)
_ADDRESSES = (0, 16, 1 << 40, (1 << 64) - 16, 1 << 63, 0x7FFF_FFFF_FFF0, (1 << 47) + 256)
_SIZES = (0, 1, 1 << 20, 1 << 28, (1 << 28) + 1, 1 << 31, (1 << 32) - 1)
_FORMS = {
    "tex.1d": (
        "mov.b32 %j0, %f0; tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%h, {%j0}];",
        Shape.BUFFER,
    ),
    "tex.2d": ("tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1}];", Shape.PLANE),
    "tex.level.3d": (
        "tex.level.3d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1, %f2, %f2}], %lod;",
        Shape.SPACE,
    ),
    "tex.acube": (
        "tex.acube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%l, %f0, %f1, %f2}];",
        Shape.LAYERED_CUBE,
    ),
    "suld": (
        "mov.b32 %j0, %f0; mov.b32 %j1, %f1; mov.b32 %r2, 0; mov.b32 %r3, 0;"
        "suld.b.2d.v2.b32.clamp {%r0, %r1}, [%h, {%j0, %j1}];",
        Shape.PLANE,
    ),
    "sust": (
        "mov.b32 %j0, %f0; mov.b32 %j1, %f1;"
        "sust.p.a2d.v4.b32.zero [%h, {%l, %j0, %j1, %j1}], {%j0, %j1, %j0, %j1};",
        Shape.LAYERED_PLANE,
    ),
}


def _hostile(draw: random.Random, made: Texture, address: int) -> bytes:
    """Return a descriptor with some fields of a valid one, or none."""
    kind = draw.randrange(8)
    if kind == 0:
        return draw.randbytes(DESCRIPTOR_BYTES)
    encoded = bytearray(made.encode(address).ljust(DESCRIPTOR_BYTES, b"\0"))
    if kind in (1, 2):
        chosen = draw.choice((*_ADDRESSES, draw.getrandbits(64) & ~15))
        encoded[64:72] = struct.pack("<Q", chosen)
    if kind in (2, 3, 4):
        for at in (72, 76, 80, 84):
            if draw.random() < 0.5:
                encoded[at : at + 4] = struct.pack("<I", draw.choice(_SIZES))
        encoded[88:96] = struct.pack("<Q", draw.choice((0, 1 << 40, (1 << 64) - 64)))
    if kind == 5:
        encoded[28:32] = struct.pack("<I", draw.choice(_SIZES))
        encoded[12] = draw.choice((0, 1, 5, 17, 18, 255))
    for _ in range(draw.randrange(2)):
        encoded[draw.randrange(64)] = draw.choice(_EXTREMES)
    return bytes(encoded)


@pytest.mark.parametrize("form", _FORMS)
def test_no_access_leaves_the_aperture(form: str) -> None:
    instruction, shape = _FORMS[form]
    draw, ends = random.Random(form), Counter[str]()
    module = kernel_of(instruction, plain=form == "sust")
    function = module.functions[0]
    text = compiler().emit_llvm(module, function, BLOCK, None)
    assert prover.prove(text) > 9
    loaded = compiler().load(compiler().compile(module, function, BLOCK, None))
    bench = Bench(bytes(256), bytes(DESCRIPTOR_BYTES), bytes(1 << 14), bytes(THREADS * 4 * WORDS),
                  bytes(1 << 10))  # fmt: skip
    try:
        segment, place, address, given, out = bench.addresses()
        first = bench.aperture.base - native_launch.BEFORE_BYTES
        last = first + bench.aperture.reserved_bytes
        launch = native_launch.context(
            bench.aperture, (1, 1, 1), BLOCK, segment, 0, local_bytes(function)
        )
        parameters = native_launch.pack(
            function.parameters, function.parameter_bytes, [place, given, out]
        )
        for _ in range(_ROUNDS):
            kind = SURFACE if form[0] == "s" else TEXTURE
            made = random_textures.texture(draw, shape, kind=kind, srgb=False)
            made.image()
            bench.buffers[1].view[:] = bytearray(_hostile(draw, made, address))
            words = [
                draw.choice((0, 1, 0x3F800000, 0x7F800000, 0x7FC00000, draw.getrandbits(32)))
                for _ in range(THREADS * WORDS)
            ]
            bench.buffers[3].view[:] = bytearray(struct.pack(f"<{len(words)}I", *words))
            ended = native_launch.run(loaded, launch, parameters, [(0, 1)], function.shared_bytes)
            assert ended.signal in (0, signal.SIGSEGV, signal.SIGBUS), ended
            assert not ended.signal or first <= ended.address < last
            ends["signal" if ended.signal else f"status {ended.status}"] += 1
    finally:
        bench.close()
    assert len(ends) >= 3, ends  # faults, traps, and accesses that are performed


_LEVEL = "tex.level.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1}], %lod;"
_LAYER = "tex.a2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%l, %f0, %f1, %f1}];"
_CUBE = "tex.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1, %f2, %f2}];"


@pytest.mark.parametrize(
    ("instruction", "shape", "at", "value"),
    [
        *((_LEVEL, Shape.PLANE, at, b"\x02") for at in (0, 7, 8, 9, 10, 11)),
        *((_LEVEL, Shape.PLANE, at, b"\x04") for at in (4, 5, 6)),
        (_LEVEL, Shape.PLANE, 1, bytes([Shape.SPACE])),
        (_LEVEL, Shape.PLANE, 1, b"\xff"),
        (_LEVEL, Shape.PLANE, 2, b"\x08"),
        *((_LEVEL, Shape.PLANE, 3, bytes([count])) for count in (0, 3, 5, 0x24)),
        *((_LEVEL, Shape.PLANE, 12, bytes([count])) for count in (0, 18)),
        *((_LEVEL, Shape.PLANE, at, bytes(4)) for at in (72, 76)),
        *((_LEVEL, Shape.PLANE, at, struct.pack("<I", (1 << 28) + 1)) for at in (72, 76)),
        (_LAYER, Shape.LAYERED_PLANE, 28, bytes(4)),
        (_CUBE, Shape.CUBE, 28, struct.pack("<I", 5)),
    ],
)
def test_a_field_out_of_range_ends_the_kernel(
    instruction: str, shape: Shape, at: int, value: bytes
) -> None:
    module = kernel_of(instruction)
    made = random_textures.texture(random.Random(1), shape, sizes=(4, 4, 1))
    assert _end(module, made, 0, b"") == ""
    assert "trap" in _end(module, made, at, value)


def _end(module: Module, made: Texture, at: int, value: bytes) -> str:
    """Return the error with which the interpreter ends the kernel; empty if there is none."""
    out = bytes(16 * THREADS)
    bench = Bench(
        bytes(256), bytes(DESCRIPTOR_BYTES), made.image(), bytes(THREADS * 4 * WORDS), out
    )
    try:
        segment, place, address, *rest = bench.addresses()
        encoded = bytearray(made.encode(address))
        encoded[at : at + len(value)] = value
        bench.begin_with(1, bytes(encoded))
        function = module.functions[0]
        parameters = native_launch.pack(
            function.parameters, function.parameter_bytes, [place, *rest]
        )
        bench.interpret(module, (1, 1, 1), BLOCK, parameters, segment)
    except KernelError as error:
        return str(error)
    finally:
        bench.close()
    return ""
