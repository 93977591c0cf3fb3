"""Rows that are contiguous unless a 32-bit index wraps around, in groups that cannot start over.

Memory is mapped where the program reads before the wrap, and 16 GiB below it, where it reads
after it: code that mistakes lanes for contiguous ones reads other values.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from support.execution import native_launch
from support.proofs import clamp_proof
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

_BLOCK, _TURNS = (64, 1, 1), 3
_APART = 1 << 34
_PAGE = 1 << 14
_PREFETCH = "call void @llvm.prefetch.p0("
_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"


@dataclass(frozen=True)
class _Kernel:
    """Each of three iterations reads ``count`` words from index ``%i`` on, which advances by
    ``step``.

    ``negative``: indices are multiplied by -4, so that words before the wrap have ascending indices.
    """

    type_: str
    index: str
    count: int = 1
    guard: str = ""
    negative: bool = False

    def module(self) -> Module:
        factor = -4 if self.negative else 4
        loads = "".join(
            f"""add.{self.type_} %j, %i, {n}; mul.wide.{self.type_} %w, %j, {factor};
            add.s64 %a, %in, %w; {self.guard} ld.global.u32 %x, [%a]; st.shared.u32 [%own], %x;
            mad.lo.u32 %sum, %x, {n + 1}, %sum;"""
            for n in range(self.count)
        )
        return compile_ptx(
            f""".version 8.0\n.target sm_80\n.address_size 64
            .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 start, .param .u32 far,
                              .param .u32 step)
            {{ .reg .b64 %in, %out, %w, %a; .reg .b32 %t, %i, %j, %far, %step, %x, %sum, %n, %own;
            .reg .pred %p, %q; .shared .align 4 .b8 tile[256];
            ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %i, [start];
            ld.param.u32 %far, [far]; ld.param.u32 %step, [step]; mov.u32 %t, %tid.x;
            {self.index} add.u32 %i, %i, %j; mov.u32 %sum, 0; mov.u32 %n, 0; mov.u32 %x, 0;
            mov.u32 %own, tile; mad.lo.u32 %own, %t, 4, %own; bar.sync 0;
            turn: setp.lt.s32 %q, %i, 0; {loads} bar.sync 0; add.u32 %i, %i, %step;
            add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {_TURNS}; @%p bra turn;
            mul.wide.u32 %w, %t, 4; add.s64 %out, %out, %w; st.global.u32 [%out], %sum; ret; }}""",
            capability=(8, 0),
        )

    def expected_sums(self, start: int, far: int, step: int, words: dict[int, int]) -> list[int]:
        """Return each thread's sum; ``words`` maps indices, as numbers of the kernel's type, to
        words.
        """
        sums = []
        for thread in range(_BLOCK[0]):
            total = 0
            for turn in range(_TURNS):
                index = start + thread * far + turn * step
                if self.guard and not _of_type(index, "s32") < 0:
                    continue
                for n in range(self.count):
                    total += (n + 1) * words[_of_type(index + n, self.type_)]
            sums.append(total % (1 << 32))
        return sums


def _of_type(number: int, type_: str) -> int:
    number %= 1 << 32
    return number - (1 << 32) if type_ == "s32" and number >> 31 else number


_ROW = "mov.u32 %j, %t;"
_BACKWARDS = "neg.s32 %j, %t;"
_SUBTRACTED = "sub.s32 %i, %i, %t; mov.u32 %j, 0;"
_SPREAD = "mul.lo.u32 %j, %t, 4;"
_UNKNOWN = "mul.lo.u32 %j, %t, %far;"
_CASES = {
    "row": (_Kernel("s32", _ROW), 1, 64),
    "row, unsigned": (_Kernel("u32", _ROW), 1, 64),
    "row, those behind the wrap": (_Kernel("s32", _ROW, guard="@%q"), 1, 64),
    "row backwards": (_Kernel("s32", _BACKWARDS), -1, 64),
    "row by a negative factor": (_Kernel("s32", _SUBTRACTED, negative=True), -1, -64),
    "rows of lanes": (_Kernel("s32", _SPREAD, 4), 4, 256),
    "rows of lanes, unsigned": (_Kernel("u32", _SPREAD, 4), 4, 256),
    "lanes here and there": (_Kernel("s32", _UNKNOWN, 4), 20, 4),
    "lanes at one place": (_Kernel("s32", _UNKNOWN, 4), 0, 4),
    "more than one row of a lane": (_Kernel("s32", _UNKNOWN, 9), 12, 9),
}


@pytest.fixture
def memory() -> native_launch.Aperture:
    aperture = native_launch.Aperture()
    yield aperture
    aperture.close()


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("before", [2, 5, 40, 300, 1 << 20], ids=lambda n: f"{n} before")
def test_lanes_after_the_wrap_read_their_own_addresses(
    name: str, before: int, memory: native_launch.Aperture
) -> None:
    kernel, far, step = _CASES[name]
    top = 1 << (31 if kernel.type_ == "s32" else 32)
    random = np.random.default_rng(before)
    low = memory.allocate(random.integers(0, 1 << 32, _PAGE, dtype=np.uint32))
    memory._next = low.address + _APART
    high = memory.allocate(random.integers(0, 1 << 32, _PAGE, dtype=np.uint32))
    assert high.address == low.address + _APART
    middle = high.address + 2 * _PAGE  # the first index after the wrap, if it did not wrap
    least = top - (1 << 32)
    words = {top + n: int(high.as_type("<u4")[n + _PAGE // 2]) for n in range(-_PAGE // 2, 0)}
    words |= {least + n: int(low.as_type("<u4")[n + _PAGE // 2]) for n in range(_PAGE // 2)}
    if before == 1 << 20:  # no lane wraps around
        start, origin = 1000, low.address
        words = {n: int(low.as_type("<u4")[n]) for n in range(_PAGE)}
    else:
        start, origin = (top - before) % (1 << 32), middle - 4 * top
    if kernel.negative:  # the complement of an index times -4 is four times the index, plus 4
        start, origin = ~start, origin - 4
        words = {~index: word for index, word in words.items()}
    out = memory.allocate(bytes(4 * _BLOCK[0]))
    module = kernel.module()
    function = module.functions[0]
    numbers = [n.to_bytes(8, "little", signed=True) for n in (start, far, step)]
    parameters = native_launch.pack(
        function.parameters, function.parameter_bytes, [origin, out.address, *numbers]
    )
    context = native_launch.context(memory, (1, 1, 1), _BLOCK, 0, 0, local_bytes(function))
    expected = kernel.expected_sums(start, far, step, words)
    for plan in (jit.Plan(16, 1), jit.Plan(16, 2), jit.Plan(8, 4), jit.Plan(16, 4), jit.Plan(4, 2)):
        compiler = jit.Compiler()
        loaded = compiler.load(compiler.compile(module, function, _BLOCK, plan))
        ended = native_launch.run(loaded, context, parameters, [(0, 1)], function.shared_bytes)
        assert (ended.status, ended.signal) == (0, 0), (plan, ended)
        assert out.as_type("<u4").tolist() == expected, plan


def _text(module: Module, plan: jit.Plan, block: tuple[int, int, int] = _BLOCK) -> str:
    text = jit.Compiler().emit_llvm(module, module.functions[0], block, plan)
    assert clamp_proof.prove(text)
    return text


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("plan", [jit.Plan(16, 1), jit.Plan(16, 2)])
def test_rows_are_read_where_no_lane_wraps_around(name: str, plan: jit.Plan) -> None:
    text = _text(_CASES[name][0].module(), plan)
    found = {
        label: len(re.findall(rf"^{label}\d+:", text, re.MULTILINE)) for label in ("row", "apart")
    }
    # Nine words make two families of a row and one single load; backwards there is no row, and each
    # vector's addresses are tested at run time.
    ways = {"row backwards": plan.vectors, "more than one row of a lane": 2}.get(name, 1)
    assert found == {"row": ways, "apart": ways}


def test_each_vector_is_tested_for_a_wrapping_lane() -> None:
    text = _text(_CASES["row"][0].module(), jit.Plan(16, 2))
    bounds = re.findall(r"icmp sgt i32 %\w+, (\d+)\n?", text)
    assert set(bounds) == {str((1 << 31) - 1 - 15)}
    # For two vectors, in this iteration and, as far as LLVM keeps it, the next.
    assert len(bounds) == 4
    text = _text(_CASES["rows of lanes"][0].module(), jit.Plan(16, 2))
    assert str((1 << 31) - 1 - 15 * 4 - 3) in re.findall(r"icmp sgt i32 %\w+, (\d+)", text)
    text = _text(_CASES["lanes here and there"][0].module(), jit.Plan(16, 2))
    assert f"splat (i32 {(1 << 31) - 1 - 3})" in text


@pytest.mark.parametrize(
    ("name", "lines"),
    [("row", 2), ("rows of lanes", 8), ("lanes here and there", 0), ("row backwards", 0)],
)
def test_loads_of_the_next_iteration_are_prefetched(name: str, lines: int) -> None:
    module = _CASES[name][0].module()
    assert _text(module, jit.Plan(16, 2)).count(_PREFETCH) == lines
    assert _text(module, jit.Plan(16, 2, tier=0)).count(_PREFETCH) == 0
    # A block that is one group does not switch.
    assert _text(module, jit.Plan(16, 4)).count(_PREFETCH) == 0


def test_prefetches_are_the_loads_of_the_next_iteration() -> None:
    """A tiled kernel prefetches the next tiles, one of both factors for each group."""
    module = compile_ptx((_KERNELS / "sgemm_tiled.ptx").read_text(), capability=(9, 0))
    function = module.function("sgemm_tiled32")
    text = jit.Compiler().emit_llvm(module, function, (32, 32, 1), jit.Plan(16, 16))
    assert clamp_proof.prove(text)
    assert text.count(_PREFETCH) == 2 * 16


def test_code_does_not_grow_without_bound() -> None:
    """Each family is emitted in both forms: only the first sixteen per block are."""
    many = _Kernel("s32", _UNKNOWN, 4 * 40).module()
    text = _text(many, jit.Plan(16, 1))
    assert len(re.findall(r"^apart\d+:", text, re.MULTILINE)) == 16
