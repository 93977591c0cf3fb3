"""Neighbouring blocks that run row by row."""

from pathlib import Path

import numpy as np
import pytest

from support.execution import native_launch
from support.execution.both_backends import Bench
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.planning import choose, full_unrolling, row_order
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding
from vgpu_sim.isa import Module

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"


def _kernel(body: str = "", more: str = "") -> Module:
    """A thread adds 1 to its word of an image whose blocks are side by side, after ``body``."""
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 out)
    {{ .reg .b64 %o, %w; .reg .b32 %x, %y, %z, %n, %m, %v; .reg .pred %p, %q; {more}
      ld.param.u64 %o, [out];
      mov.u32 %x, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %v, %tid.x; mad.lo.u32 %x, %x, %n, %v;
      mov.u32 %m, %nctaid.x; mul.lo.u32 %m, %m, %n;
      mov.u32 %y, %ctaid.y; mov.u32 %n, %ntid.y; mov.u32 %v, %tid.y; mad.lo.u32 %y, %y, %n, %v;
      mov.u32 %v, %nctaid.y; mul.lo.u32 %n, %n, %v; mov.u32 %z, %ctaid.z;
      mad.lo.u32 %y, %z, %n, %y; mad.lo.u32 %x, %y, %m, %x;
      {body}
      mul.wide.u32 %w, %x, 4; add.s64 %o, %o, %w;
      ld.global.u32 %v, [%o]; add.u32 %v, %v, 1; st.global.u32 [%o], %v; ret; }}""",
        capability=(8, 0),
    )


def _suits(module: Module, block: Block = (32, 8, 1), plan: jit.Plan | None = None) -> bool:
    form = full_unrolling.build(module.functions[0], block)
    return row_order.may_run_by_rows(form, (plan or jit.Plan(16, 2)).geometry(block))


def test_blocks_with_several_rows_may_run_row_by_row() -> None:
    assert _suits(_kernel())
    assert _suits(_kernel(), (16, 2, 2), jit.Plan(8, 1))
    assert _suits(_kernel(), (12, 16, 1), jit.Plan(16, 4, padding=Padding.ROWS))


@pytest.mark.parametrize(
    ("block", "plan"),
    [
        ((256, 1, 1), jit.Plan(16, 2)),  # one row
        ((32, 8, 1), jit.Plan(16, 16)),  # one group
        ((32, 8, 1), jit.Plan(1, 1)),
        ((2, 128, 1), jit.Plan(16, 16, padding=Padding.LINE)),
    ],
    ids=["row", "group", "lane", "line"],
)
def test_blocks_without_rows_run_as_a_whole(block: Block, plan: jit.Plan) -> None:
    assert not _suits(_kernel(), block, plan)


_SHARED, _LOCAL = ".shared .b8 s[64];", ".local .b8 s[64];"


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("turn: add.u32 %n, %n, -1; setp.ne.u32 %p, %n, 0; @%p bra turn;", ""),
        ("bar.sync 0;", ""),
        ("membar.gl;", ""),
        ("atom.global.add.u32 %v, [%o], 1;", ""),
        ("red.global.add.u32 [%o], 1;", ""),
        ("vote.sync.any.pred %p, %q, -1;", ""),
        ("ld.volatile.global.u32 %v, [%o];", ""),
        ("ld.u32 %v, [%o];", ""),
        ("setp.eq.u32 %p, %x, 77; @%p trap;", ""),
        ("st.shared.u32 [s], %x;", _SHARED),
        ("st.local.u32 [s], %x;", _LOCAL),
    ],
    ids=[
        *("loop", "barrier", "fence", "atomic", "reduction", "vote", "volatile", "generic", "trap"),
        *("shared", "local"),
    ],
)
def test_blocks_with_a_visible_order_run_as_a_whole(body: str, more: str) -> None:
    assert not _suits(_kernel(body, more))


def test_the_first_tier_runs_blocks_as_a_whole() -> None:
    module = _kernel()
    for tier, pieces in ((0, False), (1, True)):
        plan = jit.Plan(16, 2, tier=tier)
        text = jit.Compiler().emit_llvm(module, module.functions[0], (32, 8, 1), plan)
        assert ("%piece" in text) == pieces


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 3, 2), (70, 2, 1), (1, 7, 2)])
@pytest.mark.parametrize(
    ("block", "plan"),
    [
        ((32, 4, 1), jit.Plan(16, 1)),
        ((32, 4, 1), jit.Plan(16, 2)),
        ((32, 4, 1), jit.Plan(16, 4)),
        ((16, 2, 1), jit.Plan(4, 2)),
        ((12, 6, 1), jit.Plan(16, 2, padding=Padding.ROWS)),
    ],
    ids=["half a row", "row", "rows", "narrow", "padded"],
)
def test_each_thread_of_any_run_of_blocks_runs_once(
    block: Block, plan: jit.Plan, grid: Block
) -> None:
    module = _kernel()
    function = module.functions[0]
    assert _suits(module, block, plan)
    blocks = grid[0] * grid[1] * grid[2]
    bench = Bench(bytes(4 * blocks * block[0] * block[1]))
    try:
        parameters = native_launch.pack(
            function.parameters, function.parameter_bytes, bench.addresses()
        )
        for first, end in ((0, blocks), (0, 0), (blocks // 3, blocks - blocks // 4)):
            (found,) = bench.execute(module, grid, block, parameters, plan, ranges=[(first, end)])
            # By plane of blocks, row of blocks, row, block, and column.
            by_block = np.frombuffer(found, np.uint32).reshape(
                grid[2], grid[1], block[1], grid[0], block[0]
            )
            each = np.moveaxis(by_block, 2, 3).reshape(blocks, -1)
            want = (np.arange(blocks) >= first) & (np.arange(blocks) < end)
            np.testing.assert_array_equal(each, np.broadcast_to(want[:, None], each.shape))
    finally:
        bench.close()


def test_a_row_of_the_next_block_comes_first_and_a_fault_names_its_block() -> None:
    """The first row of block 2 faults: each previous block has run one row."""
    module = _kernel("setp.eq.u32 %p, %x, 64; @%p add.s64 %o, %o, 1099511627776;")
    function = module.functions[0]
    grid, block = (3, 1, 1), (32, 4, 1)
    bench = Bench(bytes(4 * 3 * 32 * 4))
    try:
        compiler = jit.Compiler()
        code = compiler.compile(module, function, block, jit.Plan(16, 2))
        values = native_launch.pack(
            function.parameters, function.parameter_bytes, bench.addresses()
        )
        launch = native_launch.context(bench.aperture, grid, block)
        ended = native_launch.run(compiler.load(code), launch, values, [(0, 3)])
        assert ended.signal
        assert ended.block == 2
        picture = bench.buffers[0].as_type("<u4").reshape(4, 96)
        assert picture[0, :64].all()
        assert not picture[1:].any()
    finally:
        bench.close()


@pytest.mark.parametrize(
    ("name", "block", "vectors"),
    [
        ("stencil_f64", (32, 8, 1), 2),
        ("stencil5", (32, 8, 1), 4),
        ("stencil5", (16, 16, 1), 4),
        ("stencil5", (256, 1, 1), 8),  # a single row
    ],
)
def test_groups_have_few_rows(name: str, block: Block, vectors: int) -> None:
    function = compile_ptx((_KERNELS / f"{name}.ptx").read_text(), capability=(9, 0)).functions[0]
    form = full_unrolling.build(function, block)
    plan = choose.choose(form, block, 512)
    assert plan == jit.Plan(16, vectors)
    assert not row_order.has_too_many_rows(form, plan.geometry(block))
    assert row_order.has_too_many_rows(form, Geometry((32, 8, 1), 16, 8))
