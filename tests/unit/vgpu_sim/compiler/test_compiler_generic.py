"""cvta, isspacep, and hints about addresses."""

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from vgpu_sim.compiler.errors import InvalidPtxError, UnsupportedPtxError
from vgpu_sim.isa import Instruction, Literal, Op

_REGISTERS = """
    .reg .b64 %a, %c, %s, %o, %d, %policy; .reg .b32 %t, %r; .reg .pred %p;
    .shared .align 16 .b8 sm[64];
"""
_HEADER = ".const .b32 one[4] = {1}; .global .b32 two[4]; .const .b8 three[3];"
_SPACES = {
    "global": "a two",
    "const": "one three",
    "shared": "sm",
    "shared::cta": "sm",
    "shared::cluster": "sm",
    "local": "",
    "param": "",
    "param::entry": "",
}


@pytest.mark.parametrize("space", _SPACES)
def test_isspacep(space: str) -> None:
    """Tests one address of each kind, and the last byte of a constant variable."""
    body = "ld.param.u64 %o, [po]; mov.b64 %a, %o;"
    places = {
        "a": "mov.b64 %d, %a;",
        "two": "cvta.global.u64 %d, two;",
        "one": "cvta.const.u64 %d, one+15;",
        "three": "cvta.const.u64 %d, three+2;",
        "sm": "cvta.shared.u64 %d, sm+60;",
    }
    for index, line in enumerate(places.values()):
        body += f"{line} isspacep.{space} %p, %d; selp.u32 %r, 1, 0, %p;"
        body += f"st.global.u32 [%o+{4 * index}], %r;"
    text = kernel(body, ".param .u64 po", registers=_REGISTERS, header=_HEADER)
    (found,) = run(text.replace("sm_80", "sm_90"), [np.zeros(5, "<u4")], block=(1, 1, 1))
    assert found.tolist() == [name in _SPACES[space].split() for name in places]


@pytest.mark.parametrize("window", ["shared", "shared::cta", "shared::cluster"])
def test_cvta_there_and_back(window: str) -> None:
    text = kernel(
        f"""
        ld.param.u64 %o, [po]; mov.u64 %s, sm; add.u64 %s, %s, 12;
        cvta.{window}.u64 %d, %s; mov.u32 %r, 77; st.u32 [%d], %r;
        cvta.to.{window}.u64 %c, %d; st.global.u64 [%o], %c;
        ld.shared.u32 %r, [sm+12]; st.global.u32 [%o+8], %r;
        """,
        ".param .u64 po",
        registers=_REGISTERS,
    )
    (found,) = run(text.replace("sm_80", "sm_90"), [np.zeros(2, "<u8")], block=(1, 1, 1))
    assert found.tolist() == [12, 77]


def _words(line: str) -> tuple[Instruction, ...]:
    text = kernel(line, registers=_REGISTERS).replace("sm_80", "sm_90")
    return compile_verified(text).functions[0].code[:-1]


@pytest.mark.parametrize(
    "line",
    [
        "prefetch.global.L1 [%a];",
        "prefetch.L2 [%a+4];",
        "prefetch.global.L2::evict_last [%a];",
        "prefetch.global.L2::evict_normal [%a];",
        "prefetchu.L1 [%a];",
        "applypriority.global.L2::evict_normal [%a], 128;",
        "discard.global.L2 [%a], 128;",
    ],
)
def test_hints_have_no_effect(line: str) -> None:
    assert _words(line) == ()


@pytest.mark.parametrize(
    "line",
    [
        "createpolicy.fractional.L2::evict_last.b64 %policy, 0f3f800000;",
        "createpolicy.fractional.L2::evict_first.b64 %policy;",
        "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %policy, 1.0;",
        "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %policy, [%a], 1024, %r;",
        "createpolicy.cvt.L2.b64 %policy, %d;",
    ],
)
def test_policies_are_a_number(line: str) -> None:
    (word,) = _words(line)
    assert (word.op, word.srcs) == (Op.MOV, (Literal(0),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("discard.global.L2 [%a], 64;", "the constant 128"),
        ("applypriority.global.L2::evict_normal [%a], %r;", "the constant 128"),
        ("prefetch.global.L1 [%r1];", "not declared"),
        ("prefetch.shared.L1 [%a];", "shared"),
        ("createpolicy.cvt.L2.b64 %r, %d;", "32 bits"),
        ("cvta.global.u64 %d, sm;", "not in .global space"),
        ("cvta.to.shared.u64 %d, sm;", "must be a register"),
        ("cvta.shared.u32 %r, %t;", "u32"),
    ],
)
def test_invalid_forms_are_rejected(line: str, message: str) -> None:
    with pytest.raises((InvalidPtxError, UnsupportedPtxError), match=message):
        _words(line)
