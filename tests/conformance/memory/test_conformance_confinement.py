"""A proof from the LLVM text alone that every access of the JIT stays near the aperture."""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from llvmlite import binding

from support.execution import both_backends, prover
from support.execution.interpreted_ptx import compile_verified
from support.kernels import barrier_kernels, random_addresses, warp_kernels
from support.kernels.kernel_builder import KernelBuilder
from support.kernels.random_kernels import reaches
from support.proofs import clamp_proof, ir_text
from support.tools import prove_addresses
from vgpu_sim import compiler
from vgpu_sim.compiler import pipeline
from vgpu_sim.compiler.ptx import parse
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import PlanError
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.memory import shared_memory
from vgpu_sim.exec.jit.numbers import known_bits, known_values
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.exec.jit.values.launch import MISALIGNED_OFFSET_BYTES
from vgpu_sim.isa import (
    DataType,
    Instruction,
    Literal,
    Module,
    Op,
    Register,
    Space,
    SpecialRegister,
)

D = DataType
_CORPUS = os.environ.get("TESSERA_PTX_CORPUS", "")
_FILES = sorted(Path(_CORPUS).glob("*.ptx")) if _CORPUS else []
_EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.ptx"))
_CONTESTS = Path(__file__).parents[3] / "benchmarks" / "exec" / "kernels"
_PLANS: tuple[tuple[tuple[int, int, int], jit.Plan | None], ...] = (
    ((256, 1, 1), None),
    ((16, 16, 1), None),
    ((33, 7, 1), None),
    ((32, 8, 1), jit.Plan(16, 4)),
    ((64, 1, 1), jit.Plan(1, 1)),
)
_SEEDS, _BATCH = 300, 60


def _text(module: Module, block: tuple[int, int, int], plan: jit.Plan | None) -> str:
    try:
        return jit.Compiler().emit_llvm(module, module.functions[0], block, plan)
    except PlanError:  # lanes of the kernel wait for each other
        return jit.Compiler().emit_llvm(module, module.functions[0], block)


def _kernels(path: Path) -> Iterator[Module]:
    """Yield each kernel of a file that can be loaded on its own."""
    syntax = parse(path.read_bytes())
    for function in syntax.functions:
        if not function.is_entry or function.body is None:
            continue
        alone = replace(syntax, functions=(function,))
        start = pipeline.Compilation(path.read_text(), (9, 0), path.name, syntax=alone)
        try:
            module = pipeline.run(start, pipeline.STAGES[1:]).module
        except compiler.PtxError:
            continue
        assert module is not None
        if module.functions:
            yield module


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    for module in _kernels(path):
        for block, plan in _PLANS:
            assert prover.prove(_text(module, block, plan)) >= 3


@pytest.mark.parametrize(
    ("name", "plan"), [("life", None), ("mandelbrot", None), ("spmv", jit.Plan(16, 2))]
)
def test_masks_of_single_vectors_prove_that_code_was_not_skipped(
    name: str, plan: jit.Plan | None
) -> None:
    """The store of one vector is inside code that is skipped if no vector has an active lane."""
    (module,) = _kernels(_CONTESTS / f"{name}.ptx")
    assert prover.prove(_text(module, (256, 1, 1), plan)) >= 3


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.stem)
def test_alignment_costs_nothing_where_the_pointer_proves_it(path: Path) -> None:
    """The parameters are tested before all loops."""
    for module in _kernels(path):
        text = _text(module, (32, 8, 1), jit.Plan(16, 4))
        for function in text.split("\ndefine ")[1:]:
            prologue, _, body = function.partition("\nstart:")
            assert f"i64 {MISALIGNED_OFFSET_BYTES}, i64 0" in prologue
            assert str(MISALIGNED_OFFSET_BYTES) not in body


@pytest.mark.skipif(
    not _FILES, reason="NOT RUN: TESSERA_PTX_CORPUS does not name a folder with .ptx files"
)
@pytest.mark.timeout(1800)  # minutes of CPU time, in idle time
def test_corpus() -> None:
    proven = 0
    for path in _FILES:
        for module in _kernels(path):
            for block, plan in _PLANS[:3]:
                proven += prover.prove(_text(module, block, plan))
    assert proven > 80


def test_every_form_of_access_at_random_addresses_and_the_kernels_that_run() -> None:
    """A share of ``make fuzz proofs=1``."""
    forms = "\n".join(reaches.generate(seed).code for seed in range(200))
    for form in (
        "cp.async",
        "ldmatrix",
        "mma.sync",
        "atom.add",
        "atom.shared",
        "red.global",
        "call",
    ):
        assert form in forms
    proven = {
        kind: sum(map(prove_addresses.KINDS[kind], range(15))) for kind in prove_addresses.KINDS
    }
    assert proven["every form"] > 300
    assert proven["running"] > 300


def test_proofs_resume_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_prover(seed: int) -> int:
        if seed == 1:
            raise clamp_proof.NotShown("an access")
        return 10

    monkeypatch.setattr(prove_addresses, "KINDS", {"one": run_prover, "other": lambda seed: 1})
    arguments = ["n=3", f"folder={tmp_path}", "minutes="]
    assert [prove_addresses.main(arguments) for _ in "12"] == [1, 1]
    state = json.loads((tmp_path / "proofs.json").read_text())
    assert (state["done"], state["accesses"]) == (6, 23)
    assert state["failed"] == ["one, seed 1: NotShown: an access"]


@pytest.mark.parametrize("first", range(0, _SEEDS, _BATCH))
def test_random_address_computations(first: int) -> None:
    """``tests/support/tools/prove_addresses.py`` proves kernels of any seeds."""
    assert sum(map(prove_addresses.prove, range(first, first + _BATCH))) > _BATCH


@pytest.mark.parametrize("first", range(0, _SEEDS, _BATCH))
def test_random_addresses_of_shared_memory_or_either(first: int) -> None:
    """The kernels include generic addresses, in loads, stores and atomic updates."""
    seeds = range(first, first + _BATCH)
    assert sum(prove_addresses.prove(seed, shared=True) for seed in seeds) > 5 * _BATCH


_MEETING = {
    "reduction": (barrier_kernels.reduction(), (24, 8, 1)),
    "tiled": (barrier_kernels.tiled_sgemm(8), (8, 8, 1)),
    "pipeline": (barrier_kernels.pipeline(), (64, 1, 1)),
    "parted": (barrier_kernels.diverging_kernel(), (64, 1, 1)),
    "guarded": (barrier_kernels.guarded_kernel(), (96, 1, 1)),
}


@pytest.mark.parametrize("name", _MEETING)
def test_kernels_with_shared_memory_and_barriers(name: str) -> None:
    module, block = _MEETING[name]
    legal = list(both_backends.compiler().legal_plans(module, block))
    for plan in (None, *legal[:: max(1, len(legal) // 6)]):
        assert prover.prove(_text(module, block, plan)) >= 3


# The prover must be sound: it must fail if the analysis claims more than is true.


def test_a_shared_address_that_reaches_too_far_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    LD.PARAM.U32 r11, [0]
    ADD.U32 r11, r11, r4
    LD.SHARED.U8 r10, [r11+2147483632]
    ST.SHARED.U8 [r11-2147483632], r10
    """
    module = barrier_kernels.kernel(body, 0, 1, 64)
    monkeypatch.setattr(clamp_proof, "SHARED_REACH_BYTES", 3 << 30)  # the actual bound
    text = _text(module, (32, 1, 1), jit.Plan(16, 2))
    assert clamp_proof.prove(text) == 4 + 8  # including the code that clears the block's memory
    monkeypatch.setattr(shared_memory, "_NEAR_BYTES", 1 << 40)
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(_text(module, (32, 1, 1), jit.Plan(16, 1)))


def test_a_shared_address_that_is_not_sign_extended_is_detected() -> None:
    module = barrier_kernels.reduction()
    text = _text(module, (64, 1, 1), jit.Plan(16, 2))
    assert clamp_proof.prove(text)
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(text.replace("sext i32", "zext i32"))
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(text.replace("ptr %thread, i64 32", "ptr %thread, i64 24"))


def test_a_lane_of_a_pair_with_bits_of_the_other_is_detected() -> None:
    module = compiler.compile_ptx(
        """.version 8.0\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u32 n) { .shared .b32 cells[64]; .reg .b32 %a, %t;
        ld.param.u32 %a, [n]; mov.u32 %t, %tid.x; mul.lo.u32 %a, %a, %t; shl.b32 %a, %a, 2;
        mad.lo.u32 %a, %a, %a, %a; red.shared.add.u32 [%a], %t; ret; }""",
        capability=(9, 0),
    )
    text = _text(module, (32, 1, 1), jit.Plan(16, 2))
    assert text.count("ashr i64") >= 2 * 16
    assert clamp_proof.prove(text)
    for change in (("ashr i64", "lshr i64"), (", 32,", ", 24,")):
        assert change[0] in text
        with pytest.raises(clamp_proof.NotShown):
            clamp_proof.prove(text.replace(*change))


def test_an_unclamped_generic_address_is_detected() -> None:
    """It must be clamped to the reservation for shared memory, or else to the aperture."""
    text = _text(random_addresses.kernel(5, shared=True), (64, 1, 1), jit.Plan(16, 2))
    assert clamp_proof.prove(text)
    far = f"i64 {1 << 32})"
    assert far in text
    for change in ((far, f"i64 {1 << 36})"), (f", {1 << 30}", f", {1 << 37}")):
        assert change[0] in text
        with pytest.raises(clamp_proof.NotShown):
            clamp_proof.prove(text.replace(*change))


def test_writes_of_helpers_and_intrinsics_are_checked() -> None:
    """A CPU without embedded rounding sets the rounding mode through memory (AVX2)."""
    module = compiler.compile_ptx(
        """.version 8.0\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a) { .reg .b64 %a; .reg .f32 %f; ld.param.u64 %a, [a];
        ld.global.f32 %f, [%a]; add.rz.f32 %f, %f, %f; st.global.f32 [%a], %f; ret; }""",
        capability=(9, 0),
    )
    with llvm.generating_for(llvm.AVX2):
        text = _text(module, (64, 1, 1), jit.Plan(8, 1))
    assert clamp_proof.prove(text) == 2
    mode, word = re.search(r"store (i32) \d+, ptr (%\w+)$", text, re.MULTILINE).groups()[::-1]
    for change in (
        (f"store {word} ", "store i64 "),
        (f"ldmxcsr(ptr {mode})", "ldmxcsr(ptr %a0)"),
        ("sse.stmxcsr(ptr", "fxsave(ptr"),
    ):
        assert change[0] in text
        with pytest.raises((clamp_proof.NotShown, ir_text.NotRead)):
            clamp_proof.prove(text.replace(*change))


def test_a_large_term_that_cancels_has_no_effect() -> None:
    """The window of shared memory is terabytes away, but distances between addresses in it are
    small.
    """
    module = compiler.compile_ptx(
        """.version 8.0\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 p, .param .u32 n, .param .u32 m) {
        .reg .b64 %p, %n, %m; .reg .b32 %a, %b;
        ld.param.u64 %p, [p]; ld.param.u32 %a, [n]; ld.param.u32 %b, [m];
        cvt.u64.u32 %n, %a; cvta.shared.u64 %n, %n; cvt.u64.u32 %m, %b; cvta.shared.u64 %m, %m;
        sub.u64 %n, %n, %m; add.u64 %n, %n, %p; st.global.u32 [%n], 7; ret; }""",
        capability=(9, 0),
    )
    text = _text(module, (64, 1, 1), jit.Plan(16, 1))
    assert clamp_proof.prove(text) == 1
    changed, changes = re.subn(r"(add i64 .*\n.* = )sub ", r"\1add ", text)
    assert changes == 1
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(changed)


def test_the_smaller_of_two_bounds_applies() -> None:
    """A known address in local memory is bounded by the mask and by the address itself."""
    module = compiler.compile_ptx(
        """.version 8.0\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 p) { .local .b8 own[64]; .reg .b64 %p, %x; .reg .b32 %a;
        ld.param.u64 %p, [p]; mov.b32 %a, %tid.y; add.u32 %a, %a, 0x7FFFFFF3;
        ld.local.b64 %x, [%a]; st.global.b64 [%p], %x; ret; }""",
        capability=(9, 0),
    )
    text = _text(module, (64, 1, 1), jit.Plan(8, 1))
    assert "and i32 2147483635, " in text
    assert clamp_proof.prove(text) > 1
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(re.sub(r"and i32 2147483635, \d+", "and i32 2147483635, -1", text))


def test_unreachable_code_needs_no_proof_and_hides_nothing() -> None:
    """An example is the fallback of a group that may start over but never does."""
    text = _text(random_addresses.kernel(5), (64, 1, 1), jit.Plan(16, 2))
    count = clamp_proof.prove(text)
    lost = "lost:\n  %lost = inttoptr i64 %block to ptr\n  store i8 0, ptr %lost, align 1\n"
    text = text.replace("\nnext:\n", f"\n{lost}  br label %next\nnext:\n")
    assert clamp_proof.prove(text) == count
    assert text.count("%group, label %next") == 1
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(text.replace("%group, label %next", "%group, label %lost"))


def _unshown(seeds: range) -> int:
    count = 0
    for seed in seeds:
        try:
            prove_addresses.prove(seed)
        except clamp_proof.NotShown:
            count += 1
    return count


def test_a_float_bounded_by_its_integer_source_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    true_rule = known_values.KnownValues._result

    def rule(self: known_values.KnownValues, node: ssa.Operation, bits: int) -> known_bits.Known:
        source = node.instruction.source_type
        if source is not None and source.is_integer and source.bits < bits:
            return known_bits.between(0, 1 << source.bits, bits)
        return true_rule(self, node, bits)

    monkeypatch.setattr(known_values.KnownValues, "_result", rule)
    assert _unshown(range(280, 320)) >= 2


def test_an_unbounded_distance_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_values.Pointer, "is_confined", lambda *_: True)
    assert _unshown(range(40)) >= 2


def test_a_bound_that_is_too_large_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    b = KernelBuilder(8)
    b.store(D.B32, b.address(b.parameter(0), b.special(SpecialRegister.CTAID_X), 64), Literal(7))
    module = b.module()
    clamp_proof.prove(_text(module, (64, 1, 1), jit.Plan(16, 1)))
    monkeypatch.setattr(known_values, "BOUND_BYTES", 1 << 39)
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(_text(module, (64, 1, 1), jit.Plan(16, 1)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"call i64 @llvm.umin.i64\(i64", "call i64 @llvm.umax.i64(i64"),
        (r"mul i64 (%v\d+), 4", r"mul i64 \1, 128"),
        (r"sext i32 (%v\d+) to i64", "load i64, ptr %params"),
        (r"= sub i64", "= add i64"),
        (r"i64 9895604649984, i64 0", "i64 19791209299968, i64 0"),
    ],
)
def test_text_without_the_clamp_is_detected(old: str, new: str) -> None:
    (module,) = _kernels(next(path for path in _EXAMPLES if path.stem == "vecadd"))
    text = _text(module, (256, 1, 1), jit.Plan(16, 1))
    changed = re.sub(old, new, text)
    assert changed != text
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(changed)


# Large displacements: every shape of an address is clamped in its own way.

_DISPLACEMENTS = (
    0,
    4096,
    (1 << 31) - 64,
    (1 << 31) - 16,
    (1 << 31) - 1,
    -(1 << 31),
    -(1 << 31) + 60,
)


def _uniform(b: KernelBuilder, base: Register) -> Register:
    return base


def _by_thread(which: SpecialRegister, scale: int) -> Callable[[KernelBuilder, Register], Register]:
    return lambda b, base: b.address(base, b.special(which), scale)


def _gather_kernel(b: KernelBuilder, base: Register) -> Register:
    index = b.register(32)
    b.op(Op.REM, D.U32, index, b.special(SpecialRegister.TID_X), Literal(3))
    return b.address(base, index, 4)


_SHAPES = {
    "uniform": _uniform,
    "a vector": _by_thread(SpecialRegister.TID_Y, 4096),
    "row": _by_thread(SpecialRegister.TID_X, 4),
    "strided": _by_thread(SpecialRegister.TID_X, 1 << 27),
    "gathered": _gather_kernel,
}


@pytest.mark.parametrize("displacement", _DISPLACEMENTS)
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("known", [True, False], ids=["parameter", "unknown"])
def test_far_displacements(shape: str, displacement: int, known: bool) -> None:
    b = KernelBuilder(8, 8)
    base = b.parameter(0)
    if not known:
        b.op(Op.XOR, D.B64, base, base, b.parameter(1))
    address = _SHAPES[shape](b, base)
    for type_ in (D.U8, D.B32, D.F64):
        value = b.load(type_, address, displacement)
        b.store(type_, address, value, displacement)
        b.store(type_, address, Literal(1), displacement)
    pair = (b.register(32), b.register(32))
    b.add(Instruction(Op.LD, D.B32, pair, (address,), space=Space.GLOBAL, vector=2,
                      displacement=displacement))  # fmt: skip
    b.add(Instruction(Op.ST, D.B32, (), (address, *pair), space=Space.GLOBAL, vector=2,
                      displacement=displacement))  # fmt: skip
    module = b.module()
    for plan in (jit.Plan(16, 4), jit.Plan(1, 1)):
        text = _text(module, (32, 4, 1), plan)
        binding.parse_assembly(text).verify()
        assert clamp_proof.prove(text) >= 8


@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES[::3])
@pytest.mark.parametrize("block", [(64, 1, 1), (40, 1, 1), (5, 7, 1)])
def test_values_that_lanes_exchange(spelling: str, block: tuple[int, int, int]) -> None:
    one = warp_kernels.instruction(spelling)
    body = f"{one} mad.wide.u32 %pin, %d, 4, %pin; ld.global.u32 %d, [%pin+4];"
    module = compile_verified(warp_kernels.text(body), (10, 0))
    for plan in (None, jit.Plan(1, 1)):
        assert prover.prove(_text(module, block, plan)) >= 3
