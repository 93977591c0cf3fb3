"""Delayed sums in global memory: at the end, and at every earlier read, memory holds the same
values as without the delay.
"""

import numpy as np
import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_BLOCK = (64, 1, 1)
_GRID = (5, 1, 1)
_PLANS = (jit.Plan(16, 4), jit.Plan(8, 1, versioned=False), jit.Plan(1, 1))
_WIDE = _PLANS[:2]
_REGISTERS = """.reg .b64 %x, %h, %o, %a, %q, %d; .reg .b32 %t, %n, %b, %i, %s, %v, %k, %z, %m;
    .reg .pred %p, %g;"""


def _waits(module: Module, plan: jit.Plan = _PLANS[0]) -> bool:
    text = compiler().emit_llvm(module, module.functions[0], _BLOCK, plan)
    prover.prove(text)
    return "@combine.settle" in text


def _histogram(
    update: str = "red.global.add.u32 [%a], %v;", wide: int = 4, more: str = ""
) -> Module:
    """Return a kernel whose threads stride over n pairs (place, value) and add the values to
    h[place].
    """
    body = f"""
        ld.param.u64 %h, [h]; ld.param.u64 %x, [x]; ld.param.u32 %m, [n];
        mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %s, %nctaid.x;
        mad.lo.u32 %i, %b, %n, %t; mul.lo.u32 %s, %s, %n;
        setp.ge.u32 %p, %i, %m; @%p bra END;
        TURN:
        mad.wide.u32 %q, %i, 8, %x; ld.global.v2.u32 {{%k, %v}}, [%q];
        mad.wide.u32 %a, %k, {wide}, %h;
        setp.ne.u32 %g, %k, 3;
        cvt.s64.s32 %d, %v;
        {update}
        {more}
        add.u32 %i, %i, %s; setp.lt.u32 %p, %i, %m; @%p bra TURN;
        END:
    """
    parameters = ".param .u64 h, .param .u64 x, .param .u32 n"
    return compile_verified(kernel(body, parameters, registers=_REGISTERS))


def _pairs(count: int, places: int) -> bytes:
    rng = np.random.default_rng(places)
    values = rng.integers(-5, 1 << 20, count)
    if places == 1:
        values[:] = 3
    return np.stack([rng.integers(0, places, count), values], 1).astype("<i4").tobytes()


@pytest.mark.parametrize("places", [1, 256, 5000])
@pytest.mark.parametrize(
    ("update", "wide"),
    [
        ("red.global.add.u32 [%a], %v;", 4),
        ("atom.global.add.s32 %z, [%a], %v;", 4),
        ("@%g red.relaxed.gpu.global.add.u32 [%a], %v;", 4),
        ("red.global.add.u64 [%a], %d;", 8),
    ],
)
def test_sums(update: str, wide: int, places: int) -> None:
    """Few places, more places than the table has, and one common place."""
    module = _histogram(update, wide)
    assert all(_waits(module, plan) for plan in _WIDE)
    buffers = [bytes(places * wide), _pairs(1003, places)]
    compare(module, buffers, _GRID, _BLOCK, _PLANS, extra=(1003,))


@pytest.mark.parametrize("block", [(24, 2, 1), (100, 1, 1), (7, 3, 1)])
def test_blocks_of_all_shapes(block: tuple[int, int, int]) -> None:
    module = _histogram()
    plans = [p for p in compiler().legal_plans(module, block) if p.width > 4]
    buffers = [bytes(40 * 4), _pairs(777, 40)]
    compare(module, buffers, _GRID, block, [None, *plans[:: len(plans) // 4]], extra=(777,))


@pytest.mark.parametrize(
    "read",
    [
        "ld.global.u32 %z, [%a];",  # a gather
        "ld.global.u32 %z, [%h+12];",  # a uniform place
        "mad.wide.u32 %q, %t, 4, %h; ld.global.u32 %z, [%q];",  # contiguous
        "mad.wide.u32 %q, %t, 8, %h; ld.global.u32 %z, [%q];",  # every other one
        "@%g ld.global.u32 %z, [%a];",
    ],
)
def test_a_read_returns_delayed_sums(read: str) -> None:
    """Each thread has places of its own; at the end it adds the values that it has read there
    elsewhere.
    """
    body = f"""
        ld.param.u64 %h, [h]; ld.param.u64 %o, [o];
        mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %s, 0; mov.u32 %i, 0; mov.u32 %z, 0;
        mul.lo.u32 %k, %t, 37; and.b32 %k, %k, 63; mad.wide.u32 %a, %k, 4, %h;
        setp.ne.u32 %g, %k, 3;
        TURN:
        add.u32 %v, %i, %t;
        red.global.add.u32 [%a], %v;
        {read}
        mad.lo.u32 %s, %s, 3, %z;
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 5; @%p bra TURN;
        mad.wide.u32 %o, %t, 4, %o;
        red.global.add.u32 [%o], %s;
    """
    text = kernel(body, ".param .u64 h, .param .u64 o", registers=_REGISTERS)
    module = compile_verified(text)
    assert _waits(module)
    # Other lanes' places depend on the lane order: one group has them all, also in the first tier,
    # whose groups have 32 lanes on CPUs with short vectors.
    plans: tuple[jit.Plan, ...] = _PLANS
    block = _BLOCK
    if "%h" in read:
        plans, block = (jit.Plan(16, 2),), (32, 1, 1)
    compare(module, [bytes(4 * 128), bytes(4 * 64)], (1, 1, 1), block, plans)


def test_an_addition_outside_memory_faults_at_its_instruction() -> None:
    module = _histogram()
    code = compiler().compile(module, module.functions[0], _BLOCK, _PLANS[0])
    loaded = compiler().load(code)
    aperture = native_launch.Aperture()
    pairs = np.array([[1, 1]] * 63 + [[1 << 20, 1]], "<i4")
    buffers = [aperture.allocate(bytes(4096)), aperture.allocate(pairs.tobytes())]
    function = module.functions[0]
    values = [*(buffer.address for buffer in buffers), 64]
    parameters = native_launch.pack(function.parameters, function.parameter_bytes, values)
    launch = native_launch.context(aperture, (1, 1, 1), _BLOCK)

    def check() -> None:
        address = native_launch.fault_address(loaded, launch, parameters, [(0, 1)])
        assert address == buffers[0].address + (4 << 20)

    native_launch.in_child(check)
    aperture.close()


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("wide", [4, 8])
def test_a_table_without_sums_has_none_at_any_wrong_address(wide: int, several: bool) -> None:
    """A free entry is not a sum at address 0, nor at any other address outside memory."""
    update = {4: "red.global.add.u32 [%a], %v;", 8: "red.global.add.u64 [%a], %d;"}[wide]
    module = _histogram(update, wide)
    compiled = compiler().compile(module, module.functions[0], _BLOCK, _PLANS[0])
    loaded = compiler().load(compiled)
    aperture = native_launch.Aperture()
    pairs = np.array([[int(several and lane == 63), 1] for lane in range(64)], "<i4")
    held = aperture.allocate(bytes(4096))
    read = aperture.allocate(pairs.tobytes())
    function = module.functions[0]
    launch = native_launch.context(aperture, (1, 1, 1), _BLOCK)
    wrong = [*range(0, 64, wide), *range(64, 8192, 1000), 1 << 40, -wide, held.address + 2]

    def check() -> None:
        for address in wrong:
            values = [address, read.address, 64]
            parameters = native_launch.pack(function.parameters, function.parameter_bytes, values)
            found = native_launch.fault_address(loaded, launch, parameters, [(0, 1)])
            assert found is not None, address

    native_launch.in_child(check)
    assert not held.view.any()
    aperture.close()


@pytest.mark.parametrize(
    ("update", "more"),
    [
        ("red.release.gpu.global.add.u32 [%a], %v;", ""),
        ("red.global.add.u32 [%a], %v;", "membar.gl;"),
        ("red.global.add.u32 [%a], %v;", "st.global.u32 [%a+400], %v;"),
        ("atom.global.add.u32 %z, [%a], %v;", "red.global.max.u32 [%h], %z;"),
        ("red.global.max.u32 [%a], %v;", ""),
        ("red.global.add.f32 [%a], %v;", ""),
        ("red.global.add.u32 [%a], %v;", "ld.volatile.global.u32 %z, [%h];"),
        ("red.global.add.u32 [%a], %v;", "red.global.add.u64 [%a], %d;"),
        ("red.add.u32 [%a], %v;", ""),
    ],
)
def test_sums_are_not_delayed_where_their_order_is_visible(update: str, more: str) -> None:
    assert not _waits(_histogram(update, more=more))
