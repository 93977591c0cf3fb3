"""wgmma: what is refused, and descriptors that name bytes outside the block's shared memory."""

import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compiler
from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import AddressFault

_D, _A = "{%f0, %f1, %f2, %f3}", "{%r4, %r5, %r6, %r7}"
_HALVES = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {_D}"
_BYTES = "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r0, %r1, %r2, %r3}"
_SHARED_BYTES = 4096


def _source(body: str, target: str = "sm_90a") -> str:
    return f""".version 8.4
.target {target}
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
  .shared .align 1024 .b8 tile[{_SHARED_BYTES}];
  .reg .b32 %r<32>; .reg .f32 %f<4>; .reg .b64 %da, %db; .reg .pred %p;
  mov.u32 %r31, tile; st.shared.b32 [%r31], 0;
  ld.param.u64 %da, [p0]; ld.param.u64 %db, [p1]; mov.pred %p, 0;
  {body}
  ret;
}}
"""


@pytest.mark.parametrize(
    "statement",
    [
        f"{_HALVES}, %da, %db, %p, 1, -1, 0, 1;",
        f"{_HALVES}, {_A}, %db, %p, 1, 1, 1;",
        f"{_HALVES}, %da, %db, !%p, 1, 1, 0, 0;",
        f"{_BYTES}, {_A}, %db, %p;",
        f"{_BYTES.replace('s8.s8', 's8.s8.satfinite')}, %da, %db, %p;",
        "wgmma.wait_group.sync.aligned 7;",
        "setmaxnreg.inc.sync.aligned.u32 232;",
        "setmaxnreg.dec.sync.aligned.u32 24;",
    ],
)
def test_accepted(statement: str) -> None:
    compile_verified(_source(statement), (9, 0))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"{_HALVES}, %da, %db, %p, 1, 2, 0, 0;", "2 is not allowed"),
        (f"{_HALVES}, %da, %db, %p, 0, 1, 0, 0;", "0 is not allowed"),
        (f"{_HALVES}, %da, %db, %p, 1, 1, 0, -1;", "-1 is not allowed"),
        (f"{_HALVES}, %da, %db, %p, 1, 1, 0;", "takes 8 operands"),
        (f"{_HALVES}, {_A}, %db, %p, 1, 1, 0, 0;", "takes 7 operands"),
        (f"{_HALVES}, %da, %db, %p, 1, 1;", "operands here"),
        (f"{_HALVES}, %da, %db, %r0, 1, 1, 0, 0;", "not a predicate"),
        (f"{_HALVES}, %r0, %db, %p, 1, 1, 0, 0;", "needs 64"),
        (f"{_HALVES.replace('%f3', '_')}, %da, %db, %p, 1, 1, 0, 0;", "'_' cannot stand"),
        (f"{_HALVES.replace(', %f3', '')}, %da, %db, %p, 1, 1, 0, 0;", "vector of 4 registers"),
        (f"{_HALVES.replace('n8', 'n12')}, %da, %db, %p, 1, 1, 0, 0;", "'.m64n12k16'"),
        (f"{_HALVES.replace('k16', 'k32')}, %da, %db, %p, 1, 1, 0, 0;", "cannot stand after"),
        (f"{_BYTES.replace('n8', 'n40')}, %da, %db, %p;", "cannot stand after"),
        ("wgmma.wait_group.sync.aligned %r0;", "integer constant"),
        ("wgmma.fence.sync.aligned 1;", "takes 0 operands"),
        ("setmaxnreg.inc.sync.aligned.u32 28;", "28 is not allowed"),
    ],
)
def test_refused(statement: str, reason: str) -> None:
    with pytest.raises((InvalidPtxError, PtxSyntaxError), match=reason):
        compile_verified(_source(statement), (9, 0))


@pytest.mark.parametrize("target", ["sm_90", "sm_100a", "sm_80"])
def test_other_targets_have_no_products_of_warpgroups(target: str) -> None:
    body = f"{_HALVES}, %da, %db, %p, 1, 1, 0, 0;"
    source = _source(body, target).replace(".version 8.4", ".version 8.6")
    with pytest.raises(InvalidPtxError, match=r"needs \.target sm_90a"):
        compile_verified(source, (10, 0) if target == "sm_100a" else (9, 0))


@pytest.mark.parametrize(
    ("words", "selector", "rest"),
    [(_HALVES.replace("k16", "k32"), 2, ", 1, 1, 0, 0"), (_BYTES.replace("k32", "k64"), 1, "")],
)
def test_a_selector_of_no_lane_is_invalid(words: str, selector: int, rest: str) -> None:
    words = words.replace("mma_async", "mma_async.sp")
    before = f"{words}, %da, %db, %r0"
    compile_verified(_source(f"{before}, {selector - 1}, %p{rest};"), (9, 0))
    with pytest.raises(InvalidPtxError, match=f"the sparsity selector is {selector}"):
        compile_verified(_source(f"{before}, {selector}, %p{rest};"), (9, 0))


@pytest.mark.parametrize(
    ("start", "leading", "stride", "inside"),
    [
        (0, 128, 256, True),
        (_SHARED_BYTES - 2048 - 128, 1024, 128, True),
        (_SHARED_BYTES - 1024, 1024, 128, False),  # the second half of K
        (_SHARED_BYTES, 128, 0, False),
        (0x3FFF0, 128, 128, False),
        (0, 0x3FFF0, 0x3FFF0, False),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_descriptor_outside_shared_memory_is_a_fault(
    start: int, leading: int, stride: int, inside: bool, which: int
) -> None:
    """No byte outside is read: the code passes the clamp's proof, and each executor faults."""
    body = f"{_HALVES}, %da, %db, %p, 1, 1, 0, 0;"
    module = compile_verified(_source(body), (9, 0))
    function, block = module.functions[0], (128, 1, 1)
    assert prover.prove(compiler().emit_llvm(module, function, block)) > 0
    words = [128 >> 4 << 16, 128 >> 4 << 16]
    words[which] = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32
    parameters = native_launch.pack(function.parameters, function.parameter_bytes, words)
    bench = Bench(bytes(64))
    try:
        if inside:
            bench.interpret(module, (1, 1, 1), block, parameters)
            bench.execute(module, (1, 1, 1), block, parameters, None)
            return
        with pytest.raises(AddressFault, match="illegal shared address"):
            bench.interpret(module, (1, 1, 1), block, parameters)
        for plan in (None, jit.Plan(1, 1)):
            with pytest.raises(AssertionError, match="signal=11"):
                bench.execute(module, (1, 1, 1), block, parameters, plan)
    finally:
        bench.close()
