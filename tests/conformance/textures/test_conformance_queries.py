"""txq, suq and istypep, and textures that a kernel names by variables and parameters."""

import random
import struct

import numpy as np
import pytest

from support.execution import both_backends, native_launch
from support.execution.interpreted_ptx import compile_verified, kernel
from support.execution.texture_kernels import DESCRIPTOR_BYTES, THREADS, kernel_of, run
from support.oracles import random_textures
from support.oracles.textures import SURFACE, Shape, Texture
from vgpu_sim.compiler.errors import InvalidPtxError, PtxSyntaxError, UnsupportedPtxError
from vgpu_sim.exec.errors import KernelError

_MADE = random_textures.texture(
    random.Random(3),
    Shape.SPACE,
    levels=3,
    sizes=(8, 6, 4),
    format_=3,
    modes=(0, 2, 3),
    linear=True,
    normalized=True,
    integers=False,
)
_LAYERED = random_textures.texture(
    random.Random(4), Shape.LAYERED_CUBE, sizes=(8, 8, 1), format_=7, modes=(1, 1, 1)
)


def _ask(instruction: str, made: Texture) -> int:
    module = kernel_of(f"{instruction} mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;")
    found = run(module, [made], np.zeros((1, THREADS, 8), np.uint32))
    return int(found[0, 0, 0])


@pytest.mark.parametrize(
    ("query", "of_space", "of_cubes"),
    [
        ("width", 8, 8),
        ("height", 6, 8),
        ("depth", 4, 0),
        ("array_size", 0, _LAYERED.levels[0].shape[0] // 6),
        ("channel_data_type", 0x10D0, 0x10DE),
        ("num_mipmap_levels", 3, 1),
        ("num_samples", 0, 0),
        ("normalized_coords", 1, int(_LAYERED.normalized)),
        ("force_unnormalized_coords", 0, 0),
        ("filter_mode", 1, int(_LAYERED.linear)),
        ("addr_mode_0", 0, 3),
        ("addr_mode_1", 1, 3),
        ("addr_mode_2", 4, 3),
    ],
)
def test_queries_of_textures(query: str, of_space: int, of_cubes: int) -> None:
    assert _ask(f"txq.{query}.b32 %r0, [%h];", _MADE) == of_space
    assert _ask(f"txq.{query}.b32 %r0, [%h];", _LAYERED) == of_cubes


def test_queries_of_a_level() -> None:
    for size, wanted in (("width", 2), ("height", 1), ("depth", 1)):
        assert _ask(f"txq.level.{size}.b32 %r0, [%h], 2;", _MADE) == wanted
    with pytest.raises(KernelError, match="trap"):
        _ask("txq.level.width.b32 %r0, [%h], 3;", _MADE)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_queries_of_surfaces(channels: int) -> None:
    made = Texture(Shape.PLANE, 0, [np.zeros((1, 3, 5, channels), "u1")], kind=SURFACE)
    made.integers = True
    orders = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}
    for query, wanted in (
        ("width", 5),
        ("height", 3),
        ("depth", 0),
        ("array_size", 0),
        ("memory_layout", 0),
        ("channel_data_type", 0x10DA),
        ("channel_order", orders[channels]),
    ):
        assert _ask(f"suq.{query}.b32 %r0, [%h];", made) == wanted
    with pytest.raises(KernelError, match="trap"):
        _ask("suq.width.b32 %r0, [%h];", _MADE)


@pytest.mark.parametrize("kind", ["texref", "samplerref", "surfref"])
def test_types_of_handles(kind: str) -> None:
    surface = Texture(Shape.PLANE, 0, [np.zeros((1, 3, 5, 1), "u1")], kind=SURFACE)
    ask = f"mov.b32 %r0, 0; istypep.{kind} %p, %h; @%p mov.b32 %r0, 1;"
    assert _ask(ask, _MADE) == (kind == "texref")
    assert _ask(ask, surface) == (kind == "surfref")


_NAMED = """
    .reg .f32 %f<4>; .reg .b64 %o, %h; .reg .b32 %t;
"""


@pytest.mark.parametrize("how", ["variable", "register", "parameter"])
def test_textures_are_named(how: str) -> None:
    made = Texture(Shape.PLANE, 7, [np.arange(32, dtype="f4").reshape(1, 4, 8, 1)])
    name = {"variable": "image", "register": "%h", "parameter": "given"}[how]
    body = f"""
        ld.param.u64 %o, [output]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
        cvt.rn.f32.u32 %f0, %t; mov.u64 %h, image;
        tex.2d.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [{name}, {{%f0, 0f40000000}}];
        st.global.f32 [%o], %f0;"""
    parameters = ".param .texref given, .param .u64 output"
    header = ".visible .global .texref image;"
    module = compile_verified(kernel(body, parameters, registers=_NAMED, header=header))
    bench = both_backends.Bench(bytes(256), bytes(DESCRIPTOR_BYTES), made.image(), bytes(128))
    try:
        segment, place, address, out = bench.addresses()
        variable = next(v for v in module.variables if v.name == "image")
        assert variable.size == 8
        handle = struct.pack("<Q", 0 if how == "parameter" else place)
        bench.begin_with(0, (bytes(variable.offset) + handle).ljust(256, b"\0"))
        bench.begin_with(1, made.encode(address).ljust(DESCRIPTOR_BYTES, b"\0"))
        function = module.functions[0]
        parameters_ = native_launch.pack(
            function.parameters, function.parameter_bytes, [place, out]
        )
        expected = bench.interpret(module, (1, 1, 1), (32, 1, 1), parameters_, segment)
        found = bench.execute(module, (1, 1, 1), (32, 1, 1), parameters_, None, segment)
        assert found[3] == expected[3]
        wanted = 16 + np.minimum(np.arange(32), 7)
        assert np.array_equal(np.frombuffer(found[3], "f4"), wanted)
    finally:
        bench.close()


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("tex.2dms.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%h, {%j0, %j1, %j2, %j2}];", "2dms"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%f0, %f1}], {%j0, %j1};", "an offset"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, %w0, {%f0, %f1}];", "a sampler"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}|%p, [%h, {%f0, %f1}];", "resident"),
        ("suld.p.2d.b32.trap %r0, [%h, {%j0, %j1}];", ".p of suld"),
        ("sured.p.add.2d.b64.trap [%h, {%j0, %j1}], %w0;", ".b64 of sured"),
    ],
)
def test_what_is_refused_is_named(instruction: str, reason: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=reason):
        kernel_of(instruction)


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2}, [%h, {%f0, %f1}];", "a vector of 4 elements"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %w0}, [%h, {%f0, %f1}];", "64 bits"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%f0}];", "a vector of 2 coordinates"),
        ("tex.3d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%f0, %f1, %f2}];", "a vector of 4"),
        ("tex.level.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%f0, %f1}];", "takes"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [nothing, {%f0, %f1}];", "not declared"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%r0, {%f0, %f1}];", "32 bits"),
        ("tex.cube.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%h, {%j0, %j1, %j2, %j2}];", "integers"),
        ("suld.b.2d.v4.b64.trap {%w0, %w1, %w0, %w1}, [%h, {%j0, %j1}];", "16 bytes"),
        ("suld.b.2d.v2.b64.trap {%w0}, [%h, {%j0, %j1}];", "expected 2 elements"),
        ("txq.width.b32 %w0, [%h];", "64 bits"),
        ("sured.b.add.a2d.u32.trap [%h, {%j0, %j1, %j0, %j0}], %r0;", "no modifier .\\.a2d"),
        ("tex.grad.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%f0, %f1}], %f0, %f1;", "2 elements"),
    ],
)
def test_what_is_not_ptx_is_refused(instruction: str, reason: str) -> None:
    with pytest.raises((InvalidPtxError, PtxSyntaxError), match=reason):
        kernel_of(instruction)
