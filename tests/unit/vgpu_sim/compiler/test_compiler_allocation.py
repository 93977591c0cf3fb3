"""Physical registers: no two live values share a slot, and no more slots are used than needed."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.compiler import compile_ptx, liveness
from vgpu_sim.compiler.allocation import REGISTER_FILE_SLOTS, allocate
from vgpu_sim.isa import (
    DataType,
    Function,
    Guard,
    Instruction,
    Op,
    Predicate,
    Register,
)

EXAMPLES = Path(__file__).parents[4] / "examples"


def _function(bits: tuple[int, ...], code: list[Instruction]) -> Function:
    return Function("f", (), 0, bits, 1, tuple(code), (0,) * len(code))


def _successors(code: tuple[Instruction, ...], word: int) -> set[int]:
    instruction = code[word]
    following = set()
    if instruction.target is not None:
        following.add(instruction.target)
    ends = instruction.op in (Op.BRA, Op.RET, Op.TRAP) and instruction.guard is None
    if not ends and word + 1 < len(code):
        following.add(word + 1)
    return following


def _live_out(function: Function) -> list[set[int]]:
    """Compute liveness instruction by instruction until nothing changes: slow, from the
    definition.
    """
    code = function.code
    live_in: list[set[int]] = [set() for _ in code]
    live_out: list[set[int]] = [set() for _ in code]
    changed = True
    while changed:
        changed = False
        for word, instruction in enumerate(code):
            out = set().union(*(live_in[s] for s in _successors(code, word)))
            read = {s.index for s in instruction.srcs if isinstance(s, Register)}
            written = {d.index for d in instruction.dsts if isinstance(d, Register)}
            new = read | (out if instruction.guard is not None else out - written)
            if new != live_in[word] or out != live_out[word]:
                live_in[word], live_out[word], changed = new, out, True
    return live_out


def _check(function: Function) -> None:
    physical = allocate(function)
    size = {i: 2 if bits == 64 else 1 for i, bits in enumerate(function.register_bits)}
    place = {
        i: set(range(slot, slot + size[i])) for i, slot in enumerate(physical.slots) if slot >= 0
    }
    most = 0
    for word, live in enumerate(_live_out(function)):
        written = {d.index for d in function.code[word].dsts if isinstance(d, Register)}
        together = sorted(live | written)
        used = [slot for index in together for slot in place[index]]
        assert len(used) == len(set(used)), (word, together, physical.slots)
        most = max(most, len(used))
    ends = [max(slots) + 1 for slots in place.values()]
    total = max(ends, default=0)
    assert all(min(slots) % 2 == 0 for index, slots in place.items() if size[index] == 2)
    assert physical.peak_registers == min(total, REGISTER_FILE_SLOTS)
    assert physical.spill_bytes == 4 * max(0, total - REGISTER_FILE_SLOTS)
    assert total >= most


@pytest.mark.parametrize("name", ["saxpy", "sgemm", "vecadd"])
def test_examples(name: str) -> None:
    _check(compile_verified((EXAMPLES / f"{name}.ptx").read_text()).functions[0])


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """Random code with any control flow, guards, 16 to 64 bits; some registers are read
    unwritten.
    """
    bits = tuple(draw(st.lists(st.sampled_from([16, 32, 64]), min_size=1, max_size=8)))
    count = draw(st.integers(1, 16))
    register = st.integers(0, len(bits) - 1).map(Register)
    code = []
    for _ in range(count):
        guard = draw(st.sampled_from([None, Guard(Predicate(0)), Guard(Predicate(0), True)]))
        if draw(st.integers(0, 3)) == 0:
            target = draw(st.integers(0, count))
            code.append(Instruction(Op.BRA, guard=guard, target=target))
        else:
            srcs = tuple(draw(st.lists(register, max_size=2)))
            dst = draw(register)
            code.append(Instruction(Op.ADD, DataType.B32, (dst,), srcs, guard=guard))
    code.append(Instruction(Op.RET))
    return _function(bits, code)


@given(functions())
@settings(max_examples=300, deadline=None)
def test_live_values_never_share_a_slot(function: Function) -> None:
    _check(function)


def test_unused_registers_have_no_slot() -> None:
    code = [Instruction(Op.MOV, DataType.B32, (Register(1),), ()), Instruction(Op.RET)]
    assert allocate(_function((32, 32, 64), code)).slots == (-1, 0, -1)


def test_a_result_takes_the_slot_of_an_operand_that_ends() -> None:
    body = "mov.u32 %r0, 1; add.u32 %r1, %r0, 1; add.u32 %r2, %r1, 1; add.u32 %r3, %r2, %r2;"
    function = compile_verified(kernel(body, registers=".reg .b32 %r<4>;")).functions[0]
    assert (function.physical.peak_registers, function.physical.slots) == (1, (0, 0, 0, 0))


def test_pairs_are_even_and_their_gap_is_used() -> None:
    body = """mov.u32 %r0, 1; mov.b64 %w0, 2; mov.u32 %r1, 3;
    add.u32 %r0, %r0, %r1; cvt.u64.u32 %w1, %r0; add.u64 %w0, %w0, %w1;"""
    function = compile_verified(
        kernel(body, registers=".reg .b32 %r<2>; .reg .b64 %w<2>;")
    ).functions[0]
    assert function.physical.slots == (0, 2, 1, 0)
    assert function.physical.peak_registers == 4


def test_what_exceeds_the_register_file_is_spilled() -> None:
    count = 300
    body = "".join(f"mov.u32 %r{i}, {i};" for i in range(count))
    body += "".join(f"add.u32 %r0, %r0, %r{i};" for i in range(count))
    physical = (
        compile_verified(kernel(body, registers=f".reg .b32 %r<{count}>;")).functions[0].physical
    )
    assert (physical.peak_registers, physical.spill_bytes) == (255, 4 * (count - 255))


@pytest.mark.parametrize("limit", ["MAX_SET_BITS", "MAX_SOLVER_BITS"])
def test_what_is_too_large_falls_back_to_whole_lives(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, limit, 0)
    function = compile_verified((EXAMPLES / "vecadd.ptx").read_text()).functions[0]
    _check(function)
    assert len(set(allocate(function).slots)) == len(function.register_bits)


def test_many_blocks_and_registers_take_bounded_time() -> None:
    """4,000 blocks that jump back and forth while 1,000 registers live through all of them."""
    body = "".join(f"mov.u32 %r{i}, {i};" for i in range(1000))
    body += "".join(f"L{i}: @%p bra L{(i * 7919) % 4000};" for i in range(4000))
    body += "".join(f"add.u32 %r0, %r0, %r{i};" for i in range(1000))
    source = kernel(body, registers=".reg .b32 %r<1000>; .reg .pred %p;")
    start = time.process_time()
    physical = compile_verified(source).functions[0].physical
    assert time.process_time() - start < 100
    assert physical.spill_bytes == 4 * (1000 - 255)


@pytest.mark.parametrize(("limit", "registers"), [(1, 24), (30, 30), (255, 0)])
def test_a_kernel_reports_no_more_registers_than_maxnreg_permits(
    limit: int, registers: int
) -> None:
    loads = "".join(f"ld.global.b32 %r{i}, [%d+{4 * i}];\n" for i in range(40))
    stores = "".join(f"st.global.b32 [%d+{4 * i}], %r{i};\n" for i in range(40))
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p) DIRECTIVE {"
        f".reg .b64 %d; .reg .b32 %r<40>; ld.param.u64 %d, [p];\n{loads}{stores}ret; }}"
    )

    def count(directive: str) -> int:
        module = compile_ptx(text.replace("DIRECTIVE", directive), capability=(8, 0))
        return module.functions[0].physical.peak_registers

    assert count(f".maxnreg {limit}") == (registers or count(""))
    assert count("") > 40
