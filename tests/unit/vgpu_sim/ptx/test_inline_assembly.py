"""Inline assembly of C++ headers as kernels: what ``support.tools.legality inline`` compiles."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.tools.legality.assembler import Assembler, Kernel
from support.tools.legality.inline import Inline, NotPlain, find, make_kernel, results
from vgpu_sim.compiler import compile_ptx

SUM = r"""
  asm volatile ("{\n"  // a comment with asm("x")
      "add.s32 %0, %1, %2;\n"
      "}" : "=r"(out[0]) : "r"(ns::f(a)), "n"(N) : "memory");
"""


class StandIn(Assembler):
    """Takes kernels for ``sm_90a`` alone, and no kernel with ``setp``."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))

    def refusals(self, kernels: Sequence[Kernel]) -> list[str]:
        return ["" if one.target == "90a" and "setp" not in one.text else "no" for one in kernels]


def body(kernel: str) -> list[str]:
    """Return the lines of a kernel between its braces."""
    return [line for line in kernel.splitlines()[1:-1] if line]


def test_operands_become_registers_and_constants(tmp_path: Path) -> None:
    (tmp_path / "a.hpp").write_text(SUM)
    (one,), left_out = find(tmp_path)
    assert one.place == "a.hpp:2"
    assert not left_out
    assert body(one.text) == [
        *("{ .reg .b32 %r0; .reg .b32 %r1;", "{", "add.s32 %r0, %r1, 1;", "}", "ret;"),
    ]
    compile_ptx(".version 8.0\n.target sm_80\n.address_size 64\n" + one.text, capability=(8, 0))


@pytest.mark.parametrize(
    ("assembly", "lines"),
    [
        ('"bar.sync 0;"', ["{ ", "bar.sync 0;", "ret;"]),
        ('"bar.sync 0" ::: "memory"', ["{ ", "bar.sync 0;", "ret;"]),
        ('"mov.u64 %0, %%clock64;" : "=l"(x)', ["{ .reg .b64 %l0;", "mov.u64 %l0, %clock64;", "ret;"]),
        ('"abs.f64 %0, %0;" : "+d"(x[i ? 1 : 0])', ["{ .reg .f64 %d0;", "abs.f64 %d0, %d0;", "ret;"]),
        ('"discard.global.L2 [%0], 128;" :: "l"(p)', ["{ .reg .b64 %l0;", "discard.global.L2 [%l0], 128;", "ret;"]),
    ],
)  # fmt: skip
def test_sections_are_at_the_colons_outside_of_parentheses(assembly: str, lines: list[str]) -> None:
    assert body(make_kernel(assembly)) == lines


@pytest.mark.parametrize(
    "assembly", ['"ld" MODIFIER ";"', "TEXT", '"mov.b32 %0, %1;" : "=r"(x)', '"x %0;" : "=m"(x)']
)
def test_what_depends_on_more_than_operands_is_left_out(assembly: str, tmp_path: Path) -> None:
    with pytest.raises(NotPlain):
        make_kernel(assembly)
    (tmp_path / "a.h").write_text(f"asm({assembly});\n" + SUM)
    found, left_out = find(tmp_path)
    assert (len(found), left_out) == (1, 1)


def test_equal_assemblies_count_once_and_a_text_selects_headers(tmp_path: Path) -> None:
    (tmp_path / "a.hpp").write_text(SUM + SUM)
    (tmp_path / "b.hpp").write_text('asm("bar.sync 0;");')
    assert [one.place for one in find(tmp_path)[0]] == ["a.hpp:2", "b.hpp:1"]
    assert [one.place for one in find(tmp_path, "b.")[0]] == ["b.hpp:1"]


def test_our_compiler_is_compared_on_the_first_target_on_which_a_text_is_legal() -> None:
    texts = ("bar.sync 0;", "no.such.thing;", "setp.x;", "wgmma.fence.sync.aligned;")
    made = results([Inline(text, make_kernel(f'"{text}"')) for text in texts], StandIn())
    assert [one.target for one in made] == ["90a", "90a", "", "90a"]
    assert [bool(one.refusal) for one in made] == [False, True, False, False]
