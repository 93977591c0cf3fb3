"""The proof of the address clamp derives its own trip bounds wherever the JIT relies on one."""

import re

import pytest

from support.kernels.random_kernels import loops
from support.proofs import clamp_proof, ir_text
from support.tools import prove_addresses
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.numbers import trip_counts

_HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 a) {
 .reg .pred %t, %u, %v; .reg .b32 %c, %d, %a, %x, %lane; .reg .b64 %p, %q, %far;
 ld.param.u64 %p, [p]; ld.param.u64 %q, [q]; ld.param.u32 %a, [a];
 mov.u32 %lane, %tid.x; mul.wide.u32 %far, %lane, 4; setp.gt.u32 %v, %lane, %a;
"""
_ACCESS = "ld.global.u32 %x, [%q]; st.global.u32 [%q], %x;"
_MOVE = "add.u32 %c, %c, {step}; add.s64 %q, %q, 1048576;"
_EXIT = "setp.ge.s32 %t, 0x10000000, %c; @%t bra DONE;"
_FOUND = "setp.eq.u32 %u, %x, 7; @%u bra DONE;"
_REST = "st.global.u32 [%p], %a;"  # including the lanes that left the loop earlier
# The counter takes 2 to 16 values, while the pointer would leave the guard zones in 2^32 trips.
_SHAPES = {
    "at the head": ("0", _EXIT + _ACCESS, _MOVE),
    "in the middle": ("0", _ACCESS + _EXIT, _MOVE),
    "in two places": ("0", _EXIT + _ACCESS + _FOUND, _MOVE),
    "first by what was read": ("0", _ACCESS + _FOUND + _EXIT, _MOVE),
    "lane by lane": ("%lane", _ACCESS + _FOUND + _EXIT, _MOVE),
    "around a barrier": ("0", _EXIT + _ACCESS + "bar.sync 0;" + _FOUND, _MOVE),
    "around a branch": ("%lane", _EXIT + f"@%v bra OVER; {_ACCESS} OVER:", _MOVE),
    "around a loop": (
        "0",
        f"{_EXIT} mov.u32 %d, 0; AGAIN: {_ACCESS} add.u32 %d, %d, 1; setp.lt.u32 %u, %d, %a;"
        " @%u bra AGAIN;",
        _MOVE,
    ),
}
_STEPS = (1 << 28, 3 << 28, 1 << 31)
_PLANS = (None, jit.Plan(1, 1), jit.Plan(4, 2), jit.Plan(16, 2))


def _texts(start: str, body: str, move: str) -> list[str]:
    code = f"mov.u32 %c, {start};\nLOOP: {body} {move} bra LOOP;\nDONE: {_REST} ret; }}\n"
    module = compile_ptx(_HEAD + code, capability=(9, 0))
    block = (64, 1, 1)
    legal = set(jit.legal_plans(module.functions[0], block)) | {None}
    plans = [plan for plan in _PLANS if plan in legal]
    compiler = jit.Compiler()
    return [compiler.emit_llvm(module, module.functions[0], block, plan) for plan in plans]


@pytest.mark.parametrize("step", _STEPS)
@pytest.mark.parametrize("shape", _SHAPES)
def test_a_loop_is_bounded_wherever_it_is_left(shape: str, step: int) -> None:
    start, body, move = _SHAPES[shape]
    for text in _texts(start, body, move.format(step=step)):
        for function in text.split("\ndefine ")[1:]:
            assert "@llvm.umin.i64" not in function.partition("\nstart:")[2]  # clamped once
        assert clamp_proof.prove(text) >= 2


@pytest.mark.parametrize(("outer", "inner"), [(8, 16), (100, 1000)])
def test_an_address_that_two_nested_loops_move_is_followed(outer: int, inner: int) -> None:
    body = f"""mov.u32 %c, 0; OUT: mov.u32 %d, 0;
      IN: {_ACCESS} add.s64 %q, %q, 4; add.u32 %d, %d, 1; setp.lt.u32 %t, %d, {inner};
      @%t bra IN; {_ACCESS} add.s64 %q, %q, 64; add.u32 %c, %c, 1; setp.lt.u32 %u, %c, {outer};
      @%u bra OUT; {_REST} ret; }}"""
    module = compile_ptx(_HEAD + body, capability=(9, 0))
    for plan in (None, jit.Plan(16, 2)):
        text = jit.Compiler().emit_llvm(module, module.functions[0], (64, 1, 1), plan)
        assert clamp_proof.prove(text) >= 4


def test_random_loops() -> None:
    """A share of ``make fuzz proofs=1``."""
    text = "\n".join(loops.generate(seed).code for seed in range(40))
    for form in ("bar.sync", "@%apart bra", "setp.ne.u32", "268435456", "8589934592"):
        assert form in text
    assert sum(map(prove_addresses.KINDS["loops"], range(40))) > 40


# The prover must be sound: it must fail if the JIT claims more than is true.


def _unshown(texts: list[str]) -> int:
    count = 0
    for text in texts:
        try:
            clamp_proof.prove(text)
        except clamp_proof.NotShown:
            count += 1
    return count


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_wrong_bound_of_the_jit_is_detected(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter with step 1 may take 2^32 trips; the JIT is patched to expect 2."""
    start, body, move = _SHAPES[shape]
    assert not _unshown(_texts(start, body, move.format(step=1)))  # clamped at each access
    monkeypatch.setattr(trip_counts, "most_trips", lambda *_: 2)
    texts = _texts(start, body, move.format(step=1))
    assert _unshown(texts) == len(texts) > 0


def test_a_limit_that_the_counter_may_skip_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 2^28 skip the only value that ends the loop."""
    body = _ACCESS + "setp.eq.u32 %t, %c, 7; @%t bra DONE;"
    assert not _unshown(_texts("0", body, _MOVE.format(step=1 << 28)))
    monkeypatch.setattr(trip_counts, "_least_count", lambda *_, **__: 1 << 32)
    texts = _texts("0", body, _MOVE.format(step=1 << 28))
    assert _unshown(texts) == len(texts) > 0


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_loop_without_the_clamp_is_detected(shape: str) -> None:
    start, body, move = _SHAPES[shape]
    for text in _texts(start, body, move.format(step=1 << 28)):
        changed = text.replace("call i64 @llvm.umin.i64(i64", "call i64 @llvm.umax.i64(i64")
        assert changed != text
        assert _unshown([changed]) == 1


_LOOP = """define void @entry(ptr %ctx, ptr %params, i64 %group, ptr %thread) #0 {{
entry:
  %base = load i64, ptr %ctx, align 1
  %place = getelementptr i8, ptr %ctx, i64 8
  %limit = load i64, ptr %place, align 1
  %root = load i64, ptr %params, align 1
  %away = sub i64 %root, %base
  %near = call i64 @llvm.umin.i64(i64 %away, i64 %limit)
  %start = inttoptr i64 %base to ptr
  %first = getelementptr i8, ptr %start, i64 %near
  br label %loop
loop:
  %far = phi i64 [ 0, %entry ], [ %farther, %loop ]
  %count = phi i32 [ 0, %entry ], [ %next, %loop ]
  %pointer = getelementptr i8, ptr %first, i64 %far
  %x = load i32, ptr %pointer, align 1
  %farther = add i64 %far, 16
  %next = add i32 %count, 1
{condition}
  br i1 %again, label %loop, label %done
done:
  ret void
}}
"""


def test_limits_that_vary_between_trips_bound_nothing() -> None:
    """2^32 trips of 16 bytes stay within the guard zones; these loops may never end."""
    right = "  %again = icmp ult i32 %next, 1000"
    assert clamp_proof.prove(_LOOP.format(condition=right)) == 1
    wrong = {
        "one of two comparisons": "  %low = icmp ult i32 %next, 5\n"
        "  %high = icmp ugt i32 %next, 3\n  %again = or i1 %low, %high",
        "a limit from memory": "  %again = icmp ne i32 %next, %x",
        "a part of that": "  %end = and i32 %x, 3\n  %again = icmp ne i32 %next, %end",
        "a limit that is counted in memory": "  %end = atomicrmw add ptr %pointer, i32 1 monotonic"
        "\n  %again = icmp ne i32 %next, %end",
        "a counter that varies": "  %some = and i32 %x, 3\n  %now = add i32 %next, %some\n"
        "  %again = icmp ne i32 %now, 1000",
    }
    for name, condition in wrong.items():
        with pytest.raises(clamp_proof.NotShown):
            pytest.fail(f"{name}: {clamp_proof.prove(_LOOP.format(condition=condition))}")


def test_a_lane_of_a_gather_reaches_one_element() -> None:
    """A vector that is loaded as a whole, in contrast, reaches all elements."""
    parts = "ptr> %p, <16 x i1> %m, <16 x i32> zeroinitializer)"
    gather = f"%v = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x {parts}"
    assert ir_text.access_of(ir_text.parse_line(gather, "")) == ("%p", 4)
    load = re.sub(r"gather.v16i32.v16p0\(<16 x ptr>", "load.v16i32.p0(ptr", gather)
    assert ir_text.access_of(ir_text.parse_line(load, "")) == ("%p", 64)
