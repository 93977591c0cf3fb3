"""The loops that have an unmasked copy, and the masks that its text omits."""

import re
from pathlib import Path

import numpy as np
import pytest

from support.execution import both_backends
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"
_WHOLE = re.compile(r"^turns\d+:(.*?)^left\d+:", re.DOTALL | re.MULTILINE)


def _kernel(body: str, begin: str = "", step: int = 64, limit: str = "%n") -> Module:
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 in, .param .u32 n)
    {{ .reg .b64 %a, %w; .reg .b32 %i, %n, %t, %x; .reg .pred %p;
      ld.param.u64 %a, [in]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mov.u32 %i, %t;
      mul.wide.u32 %w, %t, 4; add.s64 %a, %a, %w; {begin}
    turn: {body} add.s64 %a, %a, {4 * step}; add.s32 %i, %i, {step};
      setp.lt.s32 %p, %i, {limit}; @%p bra turn;
      ret; }}""",
        capability=(8, 0),
    )


def _text(module: Module, tier: int = 1, *, optimised: bool = False) -> str:
    plan, block = jit.Plan(16, 2, tier=tier), (64, 1, 1)
    return jit.Compiler().emit_llvm(module, module.functions[0], block, plan, optimised=optimised)


_ADD = "ld.global.u32 %x, [%a]; add.u32 %x, %x, 1; st.global.u32 [%a], %x;"


def test_iterations_of_all_lanes_have_no_masks() -> None:
    (whole,) = _WHOLE.findall(_text(_kernel(_ADD), optimised=True))
    assert "x i1>" not in whole
    assert whole.count("load <16 x i32>") == 2


@pytest.mark.parametrize(
    ("body", "begin"),
    [
        ("ld.volatile.global.u32 %x, [%a]; setp.ne.u32 %p, %x, 0; @%p bra turn;", ""),
        ("atom.global.add.u32 %x, [%a], 1;", ""),
        (_ADD * 17, ""),
        ("inner: ld.global.u32 %x, [%a]; setp.gt.u32 %p, %x, %i; @%p bra inner;", ""),
    ],
    ids=["polls", "atomic", "long", "outer"],
)
def test_loops_without_an_unmasked_copy(body: str, begin: str) -> None:
    assert not _WHOLE.findall(_text(_kernel(body, begin)))


def test_loops_that_bound_pointers_have_no_copy() -> None:
    """A counter with odd steps meets every limit, so that the pointer's range is known."""
    assert not _WHOLE.findall(_text(_kernel(_ADD, step=1)))
    assert not _WHOLE.findall(_text(_kernel(_ADD, limit="100000")))


@pytest.mark.parametrize("at", ["%in", "%in+256", "%a"])
@pytest.mark.parametrize("plan", [jit.Plan(16, 2), jit.Plan(16, 4), jit.Plan(8, 1)])
def test_memory_read_before_the_loop_is_read_again(at: str, plan: jit.Plan) -> None:
    """Each iteration loads what the previous one has stored, including the first."""
    module = compile_verified(
        kernel(
            f"""ld.param.u64 %in, [in]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mov.u32 %i, %t;
            mul.wide.u32 %w, %t, 4; add.s64 %in, %in, %w; mov.u64 %a, %in;
            ld.global.u32 %y, [{at}];
            turn: ld.global.u32 %x, [{at}]; mad.lo.u32 %x, %x, 3, %y; st.global.u32 [{at}], %x;
            add.s32 %i, %i, 64; setp.lt.s32 %p, %i, %n; @%p bra turn;""",
            ".param .u64 in, .param .u32 n",
            registers=".reg .b64 %a, %in, %w; .reg .b32 %i, %n, %t, %x, %y; .reg .pred %p;",
        )
    )
    block = (64, 1, 1)
    assert plan.vectors < 2 or _WHOLE.findall(
        jit.Compiler().emit_llvm(module, module.functions[0], block, plan)
    )
    data = np.random.default_rng(3).integers(0, 1 << 32, 4 * 64, dtype=np.uint32).tobytes()
    for count in (64, 64 * 4, 64 * 4 + 17):
        both_backends.compare(module, [data], (1, 1, 1), block, [plan], [count])


def test_the_first_tier_has_only_masked_loops() -> None:
    assert not _WHOLE.findall(_text(_kernel(_ADD), tier=0))


def test_all_loops_of_a_normalisation_have_an_unmasked_copy() -> None:
    module = compile_ptx((_KERNELS / "layernorm.ptx").read_text(), capability=(9, 0))
    text = jit.Compiler().emit_llvm(module, module.functions[0], (256, 1, 1))
    entry = text[text.index("void @entry") :]
    assert len(_WHOLE.findall(entry[: entry.index("\n}")])) == 3
