"""Every spelling of the instructions on registers that the grammar allows, with its operands."""

import itertools
from collections.abc import Iterator

from vgpu_sim.compiler.ptx.grammar import instructions
from vgpu_sim.compiler.ptx.grammar.words import TYPES

_BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "tf32": 32, "u16x2": 32, "s16x2": 32}
_BITS |= {"e4m3x2": 16, "e5m2x2": 16, "f64": 64, "f32": 32}
_UNARY = frozenset(
    [
        "abs",
        "neg",
        "popc",
        "clz",
        "bfind",
        "brev",
        "rcp",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "lg2",
        "ex2",
        "tanh",
        "not",
        "cnot",
        "testp",
        "cvt",
    ]
)
_BINARY = frozenset(
    ["add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "copysign", "set"]
)
_TERNARY = frozenset(["mad", "fma", "sad", "mul24", "mad24", "dp4a", "dp2a", "prmt", "clmad"]) - {
    "mul24"
}
_NEW = frozenset(
    [
        "u8x4",
        "s8x4",
        "f32x2",
        "ue5m3x2",
        "s2f6x2",
        "ue8m0x2",
        "e2m1x2",
        "e2m3x2",
        "e3m2x2",
        "rs",
        "pzo",
        "scaled::n1::ue8m0",
        "scaled::n2::ue8m0",
        "e4m3x4",
        "e5m2x4",
        "e2m3x4",
        "e3m2x4",
        "e2m1x4",
    ]
)
"""Types and modifiers that no GPU of compute capability 9.0 has."""


def bits_of(type_: str) -> int:
    """Return the width of the register that holds a value of a type."""
    if type_ in _BITS:
        return _BITS[type_]
    digits = "".join(c for c in type_ if c.isdigit())
    return max(16, int(digits)) if digits else 32


def spellings(opcode: str) -> Iterator[tuple[str, ...]]:
    """Return each combination of modifiers of an opcode, in the order of the grammar's rows."""
    yielded_spellings = set()
    for row in instructions()[opcode]:
        slots = [slot for group in row.groups for slot in group]
        choices = [[*sorted(slot.words), *([""] if slot.optional else [])] for slot in slots]
        for words in itertools.product(*choices):
            spelling = tuple(word for word in words if word)
            if spelling not in yielded_spellings and _NEW.isdisjoint(spelling):
                yielded_spellings.add(spelling)
                yield spelling


def _types(words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word in TYPES]


def bodies(opcode: str) -> Iterator[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    """Return name, body, widths of results and widths of operands of each spelling."""
    for words in spellings(opcode):
        types = _types(words)
        if "pred" in types or not types:
            continue
        name = ".".join((opcode, *words))
        body_parts = _body(opcode, words, types)
        if body_parts is not None:
            yield (name, *body_parts)


def _body(
    opcode: str, words: tuple[str, ...], types: list[str]
) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
    name = ".".join((opcode, *words))
    first = bits_of(types[0])
    wide = 2 * first if "wide" in words else first
    if opcode == "cvt":
        return _conversion(name, words, types)
    if opcode in ("setp", "set"):
        return _comparison(opcode, name, words, types)
    if opcode == "testp":
        return f"{name} %p, %a; selp.b32 %d0, 1, 0, %p;", (32,), (first,)
    if opcode in ("popc", "clz", "bfind"):
        return f"{name} %d0, %a;", (32,), (first,)
    if opcode in ("add", "sub", "mad", "addc", "subc", "madc") and (
        "cc" in words or opcode[-1] == "c"
    ):
        return _carried(opcode, name, words, first)
    if opcode in _UNARY:
        return f"{name} %d0, %a;", (first,), (first,)
    if (
        opcode in ("min", "max")
        and types[-1] == "f32"
        and "abs" in words
        and "xorsign" not in words
    ):
        return None  # three inputs: newer targets
    if opcode in _BINARY or opcode == "mul24":
        if len(types) > 1:
            return None  # mixed precision: newer targets
        return f"{name} %d0, %a, %b;", (wide,), (first, first)
    if opcode in ("dp4a", "dp2a", "prmt"):
        return f"{name} %d0, %a, %b, %c;", (32,), (32, 32, 32)
    if opcode in _TERNARY:
        return f"{name} %d0, %a, %b, %c;", (wide,), (first, first, wide)
    if opcode in ("shl", "shr"):
        return f"{name} %d0, %a, %b;", (first,), (first, 32)
    if opcode == "shf":
        return f"{name} %d0, %a, %b, %c;", (32,), (32, 32, 32)
    if opcode == "bfe":
        return f"{name} %d0, %a, %b, %c;", (first,), (first, 32, 32)
    if opcode == "bfi":
        return f"{name} %d0, %a, %b, %c, %e;", (first,), (first, first, 32, 32)
    if opcode in ("szext", "bmsk"):
        return f"{name} %d0, %a, %b;", (32,), (32, 32)
    if opcode == "fns":
        return f"{name} %d0, %a, %b, %c;", (32,), (32, 32, 32)
    if opcode == "slct":
        return f"{name} %d0, %a, %b, %c;", (first,), (first, first, bits_of(types[1]))
    return _video(opcode, name, words)


def _conversion(
    name: str, words: tuple[str, ...], types: list[str]
) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
    if "pack" in words:
        if len(types) == 3:
            return f"{name} %d0, %a, %b, %c;", (32,), (32, 32, 32)
        return f"{name} %d0, %a, %b;", (32,), (32, 32)
    to, source = types
    result, operand = bits_of(to), bits_of(source)
    if source == "f32" and to[-2:] == "x2":
        return f"{name} %d0, %a, %b;", (result,), (32, 32)
    return f"{name} %d0, %a;", (result,), (operand,)


def _comparison(
    opcode: str, name: str, words: tuple[str, ...], types: list[str]
) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
    source = types[-1]
    bits = bits_of(source)
    combined = any(word in ("and", "or", "xor") for word in words)
    prepare = "and.b32 %w0, %i, 1; setp.ne.u32 %r, %w0, 0;" if combined else ""
    third = ", %r" if combined else ""
    if opcode == "set":
        return f"{prepare} {name} %d0, %a, %b{third};", (bits_of(types[0]),), (bits, bits)
    pair = source not in ("bf16", "f16")
    results = "%p|%q" if pair else "%p"
    second_result = " selp.b32 %d1, 1, 0, %q;" if pair else ""
    body = f"{prepare} {name} {results}, %a, %b{third}; selp.b32 %d0, 1, 0, %p;{second_result}"
    return body, (32, 32) if pair else (32,), (bits, bits)


def _carried(
    opcode: str, name: str, words: tuple[str, ...], bits: int
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return an instruction with carry, with a carry before, and the carry after it."""
    kind = "b64" if bits == 64 else "b32"
    zero = "%x0" if bits == 64 else "%w0"
    size = "u64" if bits == 64 else "u32"
    carry_setter = "sub" if "sub" in opcode else "add"
    three = "mad" in opcode
    seed = f"mov.{kind} {zero}, -1; {carry_setter}.cc.{size} {zero}, {zero}, %c;"
    text = f"{seed} {name} %d0, %a, %b{', %c' if three else ''};"
    carry_reader = "subc" if carry_setter == "sub" else "addc"
    if "cc" in words:
        text += f" {carry_reader}.{size} %d1, 0, 0;"
        return text, (bits, bits), (bits, bits, bits)
    return text, (bits,), (bits, bits, bits)


def _video(
    opcode: str, name: str, words: tuple[str, ...]
) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
    if opcode[0] != "v":
        return None
    if opcode in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset"):
        merges = any(word in ("add", "min", "max") for word in words)
        selects = ".h1", ".b2"
        if merges:
            return f"{name} %d0, %a{selects[0]}, %b{selects[1]}, %c;", (32,), (32, 32, 32)
        return f"{name} %d0, %a, %b{selects[0]};", (32,), (32, 32)
    if opcode == "vmad" or opcode[-1] in "24":
        return f"{name} %d0, %a, %b, %c;", (32,), (32, 32, 32)
    return None


OPCODES = [
    "ex2",
    "lg2",
    "sin",
    "cos",
    "tanh",
    "rcp",
    "rsqrt",
    "sqrt",
    "div",
    "cvt",
    "add",
    "sub",
    "mul",
    "fma",
    "mad",
    "min",
    "max",
    "abs",
    "neg",
    "copysign",
    "testp",
    "set",
    "setp",
    "rem",
    "shl",
    "shr",
    "shf",
    "bfe",
    "bfi",
    "szext",
    "bmsk",
    "bfind",
    "fns",
    "popc",
    "clz",
    "brev",
    "prmt",
    "dp4a",
    "dp2a",
    "sad",
    "mul24",
    "mad24",
    "cnot",
    "not",
    "slct",
    "addc",
    "subc",
    "madc",
    "clmad",
    "vadd",
    "vsub",
    "vabsdiff",
    "vmin",
    "vmax",
    "vshl",
    "vshr",
    "vmad",
    "vset",
    "vadd2",
    "vsub2",
    "vavrg2",
    "vabsdiff2",
    "vmin2",
    "vmax2",
    "vset2",
    "vadd4",
    "vsub4",
    "vavrg4",
    "vabsdiff4",
    "vmin4",
    "vmax4",
    "vset4",
]
