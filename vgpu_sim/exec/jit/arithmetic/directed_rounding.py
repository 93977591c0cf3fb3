"""binary32 and binary64 arithmetic rounded toward zero, down or up, in hardware.

AVX-512 instructions encode a rounding mode: one instruction per 512 bits. On other CPUs, a
function per operation and direction switches the rounding mode, computes, and switches back;
only these functions are marked as not rounding to nearest.
"""

from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec.jit.text.writer import BITS, Text
from vgpu_sim.isa import Rounding

_REGISTER_BITS: Final = 512
# Intel 64 and IA-32 Architectures SDM, "Static Rounding Mode": with exceptions suppressed.
_STATIC: Final = {Rounding.RM: 8 | 1, Rounding.RP: 8 | 2, Rounding.RZ: 8 | 3}
# The control word: all exceptions masked, and the direction in bits 13 and 14.
_CONTROL: Final = {Rounding.RM: 0x3F80, Rounding.RP: 0x5F80, Rounding.RZ: 0x7F80}
# LLVM Language Reference, "llvm.set.rounding".
_MODES: Final = {Rounding.RZ: 0, Rounding.RP: 2, Rounding.RM: 3}
_NEAREST: Final = 1
_WORDS: Final = {Rounding.RM: "downward", Rounding.RP: "upward", Rounding.RZ: "towardzero"}
_EMBEDDED: Final = {"fma": "vfmadd", "fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div"}


def round_directed(
    text: Text, operation: str, scalar: str, rounding: Rounding, args: Sequence[str], vector: bool
) -> str:
    """Return the result of fadd, fsub, fmul, fdiv, fma or sqrt, rounded in the given direction.

    Operands and result are floats or doubles.
    """
    if not text.shared.embedded_rounding:
        return _with_mode_switch(text, operation, scalar, rounding, args, vector)
    full = _REGISTER_BITS // BITS[scalar]
    whole = f"<{full} x {scalar}>"
    suffix = "ps" if scalar == "float" else "pd"
    name = f"llvm.x86.avx512.{_EMBEDDED.get(operation, operation)}.{suffix}.512"
    mode = ("i32", str(_STATIC[rounding]))

    def compute(parts: Sequence[str]) -> str:
        return text.call(whole, name, *((whole, part) for part in parts), mode)

    if not vector:
        wide = [text.let(f"insertelement {whole} poison, {scalar} {arg}, i64 0") for arg in args]
        return text.let(f"extractelement {whole} {compute(wide)}, i64 0")
    return _by_registers(text, scalar, full, args, compute)


def _by_registers(
    text: Text, scalar: str, full: int, args: Sequence[str], compute: Callable[[Sequence[str]], str]
) -> str:
    """Compute on whole registers and concatenate the results.

    Vectors are split into registers, or padded if they are shorter than one.
    """
    width = text.width
    parts = [
        compute([_lanes(text, scalar, width, arg, first, full) for arg in args])
        for first in range(0, width, full)
    ]
    lanes = full
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_concatenate(text, scalar, lanes, a, b) for a, b in pairs]
        lanes *= 2
    return _lanes(text, scalar, lanes, parts[0], 0, width)


def _lanes(text: Text, scalar: str, width: int, value: str, first: int, count: int) -> str:
    """Return ``count`` lanes of a vector starting at ``first``; lanes beyond its width are
    undefined.
    """
    if (first, count) == (0, width):
        return value
    places = ", ".join(
        f"i32 {lane}" if lane < width else "i32 poison" for lane in range(first, first + count)
    )
    type_ = f"<{width} x {scalar}>"
    return text.let(f"shufflevector {type_} {value}, {type_} poison, <{count} x i32> <{places}>")


def _concatenate(text: Text, scalar: str, lanes: int, a: str, b: str) -> str:
    places = ", ".join(f"i32 {lane}" for lane in range(2 * lanes))
    type_ = f"<{lanes} x {scalar}>"
    return text.let(f"shufflevector {type_} {a}, {type_} {b}, <{2 * lanes} x i32> <{places}>")


def _with_mode_switch(
    text: Text, operation: str, scalar: str, rounding: Rounding, args: Sequence[str], vector: bool
) -> str:
    type_ = text.type_of(scalar, vector)
    kind = text.mangle(scalar, text.width if vector else 0)
    name = f"directed.{operation}.{_WORDS[rounding]}.{kind}"
    if name not in text.shared.helpers:
        text.shared.helpers[name] = _helper(text, name, operation, type_, kind, rounding, len(args))
    values = ", ".join(f"{type_} {arg}" for arg in args)
    return text.let(f"call {type_} @{name}({values})")


def _helper(
    text: Text, name: str, operation: str, type_: str, kind: str, rounding: Rounding, count: int
) -> str:
    from vgpu_sim.exec.jit.target import llvm

    declared = ", ".join([type_] * count + ["metadata", "metadata"])
    intrinsic = f"llvm.experimental.constrained.{operation}.{kind}"
    begin, end, used = _by_control_word(rounding) if llvm.is_x86() else _by_any_cpu(rounding)
    text.shared.declarations |= {f"declare {type_} @{intrinsic}({declared})", *used}
    parameters = ", ".join(f"{type_} %a{place}" for place in range(count))
    how = f'metadata !"round.{_WORDS[rounding]}", metadata !"fpexcept.strict"'
    lines = [
        f"define internal {type_} @{name}({parameters}) nounwind noinline strictfp {{",
        *begin,
        f"  %result = call {type_} @{intrinsic}({parameters}, {how}) strictfp",
        *end,
        f"  ret {type_} %result",
        "}",
    ]
    return "\n".join(lines)


_Switch = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # before, after, declarations


def _by_control_word(rounding: Rounding) -> _Switch:
    """Switch modes as x86-64 does: by SSE's control word only, since the x87's is slow to
    change.
    """
    begin = (
        "  %saved = alloca i32",
        "  %mode = alloca i32",
        "  call void @llvm.x86.sse.stmxcsr(ptr %saved) strictfp",
        f"  store i32 {_CONTROL[rounding]}, ptr %mode",
        "  call void @llvm.x86.sse.ldmxcsr(ptr %mode) strictfp",
    )
    end = ("  call void @llvm.x86.sse.ldmxcsr(ptr %saved) strictfp",)
    names = ("ldmxcsr", "stmxcsr")
    return begin, end, tuple(f"declare void @llvm.x86.sse.{name}(ptr)" for name in names)


def _by_any_cpu(rounding: Rounding) -> _Switch:
    """Switch by LLVM's own intrinsics; outside these functions the mode is to nearest."""
    begin = (f"  call void @llvm.set.rounding(i32 {_MODES[rounding]}) strictfp",)
    end = (f"  call void @llvm.set.rounding(i32 {_NEAREST}) strictfp",)
    return begin, end, ("declare void @llvm.set.rounding(i32)",)
