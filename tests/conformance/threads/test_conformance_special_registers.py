"""Every special register of PTX, on both backends and under every kind of plan, against numpy."""

import numpy as np
import pytest

from support.execution import native_launch
from support.execution.both_backends import Bench, compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.compiler.lower.special import SHARED_UNIT_BYTES, SPECIAL_REGISTERS
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

REGISTERS = (
    ".reg .b32 %r<4>; .reg .b64 %v, %o, %i, %n; .reg .pred %p; .shared .align 4 .b8 tile[200];"
)
PLACE = """
    mov.u32 %r0, tile;
    ld.param.u64 %o, [out];
    mov.u32 %r0, %ctaid.z; mov.u32 %r1, %nctaid.y; mov.u32 %r2, %ctaid.y;
    mad.lo.u32 %r0, %r0, %r1, %r2; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r0, %r0, %r1, %r2; mov.u32 %r1, %ntid.z; mov.u32 %r2, %tid.z;
    mad.lo.u32 %r0, %r0, %r1, %r2; mov.u32 %r1, %ntid.y; mov.u32 %r2, %tid.y;
    mad.lo.u32 %r0, %r0, %r1, %r2; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
    mad.lo.u32 %r0, %r0, %r1, %r2; mad.wide.u32 %o, %r0, 8, %o;
"""
RUNNING = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
GRID, DYNAMIC = (3, 2, 2), 300
NAMES = [n for n in SPECIAL_REGISTERS if n not in RUNNING]


def _read(name: str) -> str:
    match SPECIAL_REGISTERS[name].bits:
        case 64:
            return f"mov.b64 %v, {name};"
        case 32:
            return f"mov.u32 %r3, {name}; cvt.u64.u32 %v, %r3;"
        case _:
            return f"mov.pred %p, {name}; selp.b64 %v, 1, 0, %p;"


def _module(names: list[str], threads: int) -> Module:
    stores = "".join(
        f"{_read(name)} st.global.u64 [%o+{8 * threads * i}], %v;\n" for i, name in enumerate(names)
    )
    return compile_verified(kernel(PLACE + stores, ".param .u64 out", registers=REGISTERS))


def _expected_values(block: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """Return each register's value in each thread, in thread order."""
    per_block, blocks = int(np.prod(block)), int(np.prod(GRID))
    linear = np.arange(per_block * blocks)
    thread, cta = linear % per_block, linear // per_block
    lane = thread % 32
    one = np.uint64(1)
    below = (one << lane.astype(np.uint64)) - one
    equal, all_lanes = below + one, np.uint64(0xFFFF_FFFF)
    shared = -(-(200 + DYNAMIC) // SHARED_UNIT_BYTES) * SHARED_UNIT_BYTES
    found = {
        "%laneid": lane,
        "%warpid": thread // 32,
        "%nwarpid": 64,
        "%smid": cta % native_launch.MULTIPROCESSORS,
        "%nsmid": native_launch.MULTIPROCESSORS,
        "%gridid": native_launch.GRID_ID,
        "%lanemask_eq": equal,
        "%lanemask_lt": below,
        "%lanemask_le": below | equal,
        "%lanemask_ge": all_lanes & ~below,
        "%lanemask_gt": all_lanes & ~(below | equal),
        "%dynamic_smem_size": DYNAMIC,
        "%total_smem_size": shared,
        "%aggr_smem_size": shared,
        "%cluster_nctarank": 1,
    }
    for axis, name in enumerate("xyz"):
        step = int(np.prod(block[:axis]))
        found[f"%tid.{name}"] = thread // step % block[axis]
        found[f"%ntid.{name}"] = block[axis]
        step = int(np.prod(GRID[:axis]))
        for prefix in ("cta", "cluster"):
            found[f"%{prefix}id.{name}"] = cta // step % GRID[axis]
            found[f"%n{prefix}id.{name}"] = GRID[axis]
        found[f"%cluster_nctaid.{name}"] = 1
    return {
        name: np.broadcast_to(np.asarray(found.get(name, 0)).astype(np.uint64), linear.shape)
        for name in NAMES
    }


@pytest.mark.parametrize("block", [(8, 2, 3), (32, 2, 1), (5, 3, 2)])
def test_each_register_has_its_ptx_value(block: tuple[int, int, int]) -> None:
    threads = int(np.prod(block) * np.prod(GRID))
    module = _module(NAMES, threads)
    plans = [None, *list(compiler().legal_plans(module, block))[::16]]
    out = bytes(8 * threads * len(NAMES))
    (found,) = compare(module, [out], GRID, block, plans, dynamic=DYNAMIC)
    rows = np.frombuffer(found, np.uint64).reshape(len(NAMES), threads)
    for (name, wanted), row in zip(_expected_values(block).items(), rows, strict=True):
        np.testing.assert_array_equal(row, wanted, err_msg=name)


def test_low_bits_of_registers_that_were_narrower() -> None:
    """PTX ISA, "Special Registers": 16-bit and, of %gridid, 32-bit mov and cvt read the low bits."""
    block, names = (8, 2, 3), ["%gridid", "%tid.x", "%tid.y", "%ntid.x", "%ctaid.x", "%nctaid.z"]
    reads = [f"mov.u16 %h, {name}; cvt.u32.u16 %r3, %h;" for name in names]
    reads += [f"cvt.u32.u16 %r3, {name};" for name in names]
    reads += ["mov.u32 %r3, %gridid;", "mov.b32 %r3, %gridid;", "cvt.u32.u32 %r3, %gridid;"]
    reads += ["cvt.s32.s16 %r3, %gridid;"]
    threads = int(np.prod(block) * np.prod(GRID))
    stores = "".join(
        f"{read} cvt.u64.u32 %v, %r3; st.global.u64 [%o+{8 * threads * i}], %v;\n"
        for i, read in enumerate(reads)
    )
    registers = REGISTERS + ".reg .b16 %h;"
    module = compile_verified(kernel(PLACE + stores, ".param .u64 out", registers=registers))
    plans = [None, jit.Plan(1, 1), jit.Plan(8, 1)]
    (found,) = compare(module, [bytes(8 * threads * len(reads))], GRID, block, plans)
    rows = np.frombuffer(found, np.uint64).reshape(len(reads), threads)
    expected = _expected_values(block)
    wanted = [expected[name] & np.uint64(0xFFFF) for name in names] * 2
    wanted += [expected["%gridid"] & np.uint64(0xFFFF_FFFF)] * 3
    wanted += [np.full(threads, (native_launch.GRID_ID & 0xFFFF) - 0x1_0000 & 0xFFFF_FFFF)]
    for read, row, want in zip(reads, rows, wanted, strict=True):
        np.testing.assert_array_equal(row, want, err_msg=read)


def test_parts_of_running_counters_fit_together() -> None:
    """Read one after another, low, whole and high parts differ by less than a low part's range."""
    module = _module(list(RUNNING), 32)
    bench = Bench(bytes(8 * 32 * len(RUNNING)))
    try:
        parameters = native_launch.pack(module.functions[0].parameters, 8, bench.addresses())
        shape = (1, 1, 1), (32, 1, 1)
        for found in (
            bench.interpret(module, *shape, parameters)[0],
            bench.execute(module, *shape, parameters, None)[0],
        ):
            rows = np.frombuffer(found, np.uint64).reshape(2, 3, 32)
            for low, whole, high in (rows[0], rows[1][[1, 0, 2]]):
                assert (whole != 0).all()
                again = (high << np.uint64(32)) + low
                assert (np.abs((whole - again).astype(np.int64)) < 1 << 33).all()
    finally:
        bench.close()


def test_all_components_at_once() -> None:
    body = (
        PLACE
        + """
        mov.v4.u32 {%r0, %r1, _, %r3}, %tid;
        mad.lo.u32 %r0, %r1, 100, %r0; add.u32 %r0, %r0, %r3; st.global.u32 [%o], %r0;
    """
    )
    module = compile_verified(kernel(body, ".param .u64 out", registers=REGISTERS))
    (found,) = compare(module, [bytes(8 * 24)], (1, 1, 1), (8, 3, 1), [None, jit.Plan(1, 1)])
    thread = np.arange(24)
    wanted = 100 * (thread // 8) + thread % 8
    np.testing.assert_array_equal(np.frombuffer(found, np.uint64), wanted)
