"""Addresses of lanes that update shared memory one by one are not plain moves out of a vector."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import Module

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"
_UPDATE = re.compile(r"\s*(?:inc|dec|add|or|and|xor)l\s.*\((%r\w+)?(?:,(%r\w+))?\)$")
_LOAD = re.compile(r"\s*movl\s.*\((%r\w+)?(?:,(%r\w+))?\), %\w+$")
_NUMBERED = re.compile(r"%r(\d+)[dwb]?$")
_ZEN4 = llvm.Target(
    "x86_64-unknown-linux-gnu",
    "znver4",
    "+avx2,+fma,+f16c,+bmi,+bmi2,+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512cd",
)


def _names(register: str) -> frozenset[str]:
    """Return the names of a 64-bit register and its lower half."""
    number = _NUMBERED.match(register)
    return frozenset((register, f"{register}d" if number else f"%e{register[2:]}"))


def _updates(assembly: str) -> Iterator[tuple[str, str]]:
    """Yield each memory update, or load before one, with the instruction that last wrote its
    address.
    """
    written: dict[str, str] = {}
    for line in assembly.splitlines():
        if re.match(r"\S*:$", line):
            written.clear()  # the start of a block: earlier instructions are not tracked
            continue
        code = line.partition("#")[0].rstrip()
        if not code.startswith("\t") or code.startswith("\t."):
            continue
        found = _UPDATE.match(code) or _LOAD.match(code)
        for register in found.groups() if found else ():
            if register is not None and register in written:
                yield code, written[register]
        target = code.rpartition(" ")[2].rpartition("\t")[2]
        if target.startswith("%"):
            for name in _names(target.replace("%e", "%r").removesuffix("d")):
                written[name] = code


def _module(update: str) -> Module:
    """Addresses are not negative: sign extension of negative ones is arithmetic already."""
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 in)
    {{ .shared .align 8 .b8 cells[4096]; .reg .b64 %a, %w; .reg .b32 %t, %x, %c;
      ld.param.u64 %a, [in]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; add.s64 %a, %a, %w;
      ld.global.u32 %x, [%a]; and.b32 %c, %x, 255; shl.b32 %c, %c, 2; {update} ret; }}""",
        capability=(8, 0),
    )


def _assembly(module: Module, name: str, width: int, target: llvm.Target) -> str:
    function = next(f for f in module.functions if f.name == name)
    with llvm.generating_for(target):
        plan = jit.Plan(width, 2)
        text = jit.Compiler().emit_llvm(module, function, (64, 1, 1), plan)
        return llvm.assembly(text, 1)


@pytest.mark.parametrize(("target", "width"), [(_ZEN4, 16), (llvm.AVX2, 8)], ids=["zen4", "avx2"])
@pytest.mark.parametrize(
    "update",
    [
        "red.shared.add.u32 [%c], 1;",
        "red.shared.max.u32 [%c+8], %t;",
        "red.shared.or.b32 [%c], %x;",
    ],
)
def test_addresses_are_computed_by_arithmetic(update: str, target: llvm.Target, width: int) -> None:
    found = list(_updates(_assembly(_module(update), "k", width, target)))
    assert len(found) > 1.5 * width  # some addresses are computed in another block
    moved = [pair for pair in found if re.match(r"\tv?p?(extr|mov[dq])", pair[1])]
    assert not moved, moved[:3]


def test_a_histograms_addresses_are_computed_by_arithmetic() -> None:
    module = compile_ptx((_KERNELS / "histogram.ptx").read_text(), capability=(9, 0))
    found = list(_updates(_assembly(module, "histogram_shared", 16, _ZEN4)))
    assert sum(code.startswith("\tinc") for code, _ in found) >= 32
    assert not [pair for pair in found if re.match(r"\tv?p?(extr|mov[dq])", pair[1])]
