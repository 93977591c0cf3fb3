"""A result may be written to a register that the same instruction reads, in every lowering.

Each form of the grammar on registers that is lowered to several instructions runs twice: with a
separate register for each operand, and with each source in turn replaced by its destination.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from support.tools.legality import forms
from support.tools.legality.forms import Form
from vgpu_sim.compiler import PtxError
from vgpu_sim.isa import Module

_REGISTER = re.compile(r"%([a-z]+\d*(?:x\d)?)_(\d)")
_THREADS = 32
_BATCH = 30
_CARRY = "add.cc.u32 %v, %t, 0xFFFFFFF0;"  # the flag is one in some threads
# These access memory, wait, or do not depend on registers.
_ELSEWHERE = frozenset(
    [
        "ld",
        "ldu",
        "st",
        "atom",
        "red",
        "cp",
        "mbarrier",
        "bar",
        "barrier",
        "bra",
        "brx",
        "call",
        "ret",
        "exit",
        "trap",
        "brkpt",
        "nanosleep",
        "alloca",
        "stacksave",
        "stackrestore",
        "membar",
        "fence",
        "prefetch",
        "prefetchu",
        "applypriority",
        "discard",
        "createpolicy",
        "isspacep",
        "cvta",
        "mapa",
        "getctarank",
        "ldmatrix",
        "stmatrix",
        "wmma",
        "wgmma",
        "tex",
        "tld4",
        "txq",
        "istypep",
        "griddepcontrol",
        "setmaxnreg",
        "tensormap",
        "activemask",
        "shfl",
        "vote",
        "match",
        "redux",
        "elect",
    ]
)


@dataclass(frozen=True)
class _Overlap:
    """A form, and the same form with ``source`` replaced by ``result``."""

    plain: str
    shared: str
    result: str
    source: str


def _overlaps(form: Form) -> Iterator[_Overlap]:
    results = _REGISTER.findall(form.operands[0])
    sources = {found for text in form.operands[1:] for found in _REGISTER.findall(text)}
    for type_, number in results:
        for other, place in sorted(sources - set(results)):
            if _bits(type_) == _bits(other):
                result, source = f"%{type_}_{number}", f"%{other}_{place}"
                rest = ", ".join(form.operands[1:])
                shared = f"{form.spelling} {form.operands[0]}, {rest.replace(source, result)};"
                yield _Overlap(form.text, shared, result, source)


def _bits(type_: str) -> int:
    if type_ == "pred":
        return 1
    return int(re.findall(r"\d+", type_)[0]) * (int(type_[-1]) if "x" in type_ else 1)


def _set(register: str, value_of: str) -> str:
    """Return code that sets a register to a value that depends on a name and on the thread."""
    bits, seed = _bits(_REGISTER.findall(register)[0][0]), zlib.crc32(value_of.encode()) | 1
    text = f"mad.lo.u32 %v, %t, {seed}, {seed ^ 0x5A5A5A5A}; "
    if bits == 1:
        return text + f"and.b32 %v, %v, 4; setp.ne.u32 {register}, %v, 0;"
    if bits in (8, 16):
        return (
            text
            + f"cvt.u{bits}.u32 %n, %v; "
            + (f"cvt.u8.u16 {register}, %n;" if bits == 8 else f"mov.b16 {register}, %n;")
        )
    if bits == 32:
        return text + f"mov.b32 {register}, %v;"
    return (
        text
        + f"mul.wide.u32 %x, %v, {seed}; shf.l.wrap.b32 %v, %v, %v, 9; "
        + (f"cvt.u64.u32 %y, %v; shl.b64 %y, %y, 32; xor.b64 %x, %x, %y; mov.b64 {register}, %x;")
    )


def _store(register: str, place: int) -> str:
    bits = _bits(_REGISTER.findall(register)[0][0])
    at = f"[%out+{8 * place}]"
    if bits == 1:
        return f"selp.u64 %x, 1, 0, {register}; st.global.b64 {at}, %x;"
    return f"mov.b64 %x, 0; st.global.b64 {at}, %x; st.global.b{bits} {at}, {register};"


def _registers(text: str) -> list[str]:
    return sorted({f"%{type_}_{number}" for type_, number in _REGISTER.findall(text)})


def _body(overlaps: list[_Overlap]) -> str:
    lines = ["ld.param.u64 %out, [p]; mov.u32 %t, %tid.x;"]
    lines += [f"mad.wide.u32 %out, %t, {16 * len(overlaps)}, %out; add.u32 %t, %t, 3;"]
    for place, one in enumerate(overlaps):
        lines += [_set(name, name) for name in _registers(one.plain)]
        lines += [_CARRY, one.plain, _store(one.result, 2 * place)]
        lines += [_set(name, name) for name in _registers(one.shared)]
        lines += [_set(one.result, one.source), _CARRY, one.shared]
        lines += [_store(one.result, 2 * place + 1)]
    return "\n".join(lines)


def _declare(body: str) -> str:
    types = sorted({type_ for type_, _ in _REGISTER.findall(body)})
    return "".join(f".reg .{type_} %{type_}_<9>; " for type_ in types) + (
        ".reg .b64 %out, %x, %y; .reg .b32 %t, %v; .reg .b16 %n;"
    )


def _source(overlaps: list[_Overlap], target: str) -> str:
    body = _body(overlaps)
    text = kernel(body, ".param .u64 p", registers=_declare(body))
    return re.sub(r"\.target sm_\w+", f".target sm_{target}", text)


def _cases() -> dict[tuple[str, str], list[_Overlap]]:
    found: dict[tuple[str, str], list[_Overlap]] = defaultdict(list)
    for form in forms.all_forms():
        if form.opcode not in _ELSEWHERE and form.target in _TARGETS:
            found[form.opcode, _TARGETS[form.target]] += _overlaps(form)
    return {key: list(dict.fromkeys(overlaps)) for key, overlaps in found.items() if overlaps}


_TARGETS = dict.fromkeys(("75", "80", "86", "89", "90", "90a", "100", "100a"), "100a")
_TARGETS["120a"] = "120a"
_CASES = _cases()


def _compile(batch: list[_Overlap], target: str) -> Module | None:
    try:
        return compile_verified(_source(batch, target), (int(target[:-2]), 0))
    except PtxError:
        return None  # not supported yet, or one that only older targets have


@pytest.mark.parametrize(("opcode", "target"), sorted(_CASES))
def test_a_result_goes_where_an_operand_was(opcode: str, target: str) -> None:
    ran = 0
    for start in range(0, len(_CASES[opcode, target]), _BATCH):
        batch = _CASES[opcode, target][start : start + _BATCH]
        module = _compile(batch, target)
        if module is None:
            batch = [one for one in batch if _compile([one], target)]
            module = _compile(batch, target)
        assert module is not None
        out = np.zeros((_THREADS, len(batch), 2), np.uint64)
        (found,) = run(module, [out], block=(_THREADS, 1, 1))
        for place, one in enumerate(batch):
            assert (found[:, place, 0] == found[:, place, 1]).all(), one
        ran += len(batch)
    assert ran
