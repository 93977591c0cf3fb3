"""Random instructions on small and packed floats, and float instructions without an operator."""

from collections.abc import Callable

from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.program import Program

_TINY = ("e4m3", "e5m2", "e2m3", "e3m2")
_PROPERTIES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def _optional(dice: Dice, word: str, sides: int = 4) -> str:
    return word if dice.one_in(sides) else ""


def arithmetic(program: Program) -> None:
    """Emit arithmetic on one or two halves, or on two singles, at a time."""
    dice = program.dice
    kind = dice.pick(("f16", "bf16", "f16x2", "bf16x2", "f16x2", "f32x2"))
    bits = {"f16": 16, "bf16": 16, "f32x2": 64}.get(kind, 32)
    to = program.register(bits)
    a, b, c = (program.register(bits) for _ in range(3))
    flush = _optional(dice, ".ftz") if kind[0] == "f" else ""
    rounding = f".{dice.pick(('rn', 'rz', 'rm', 'rp'))}" if kind == "f32x2" else ".rn"
    sat = _optional(dice, ".sat") if kind in ("f16", "f16x2") else ""
    which = dice.number(0, 7 if kind != "f32x2" else 4)
    if which < 3:
        name, operands = f"{dice.pick(('add', 'sub', 'mul'))}{rounding}{flush}{sat}", f"{a}, {b}"
    elif which < 5:
        clamp = sat or (_optional(dice, ".relu") if kind != "f32x2" else "")
        name, operands = f"fma{rounding}{flush}{clamp}", f"{a}, {b}, {c}"
    elif which == 5:
        name, operands = f"{dice.pick(('neg', 'abs'))}{flush}", a
    else:
        words = _optional(dice, ".NaN", 2) + _optional(dice, ".xorsign.abs", 2)
        name, operands = f"{dice.pick(('min', 'max'))}{flush}{words}", f"{a}, {b}"
    program.add(f"{program.guard()}{name}.{kind} {to}, {operands};")


def emit_mixed(program: Program) -> None:
    """Emit binary32 sums of halves, and the other forms of the minimum."""
    dice = program.dice
    to, c = program.register(32), program.register(32)
    if dice.one_in(2):
        words = _optional(dice, ".ftz") + _optional(dice, ".NaN", 2)
        words += _optional(dice, ".xorsign.abs", 2) or ("" if words.endswith("NaN") else ".NaN")
        program.add(f"{program.guard()}{dice.pick(('min', 'max'))}{words}.f32 {to}, {c}, {to};")
        return
    small, rounding = dice.pick(("f16", "bf16")), dice.pick(("rn", "rz", "rm", "rp"))
    name, count = dice.pick((("add", 1), ("sub", 1), ("fma", 2)))
    factors = ", ".join(program.register(16) for _ in range(count))
    sat = _optional(dice, ".sat")
    program.add(f"{program.guard()}{name}.{rounding}{sat}.f32.{small} {to}, {factors}, {c};")


def convert(program: Program) -> None:
    """Emit conversions from and to the small formats."""
    dice = program.dice
    guard, relu = program.guard(), _optional(dice, ".relu")
    finite = _optional(dice, ".satfinite", 2)
    half, wide = dice.pick(("f16", "bf16")), program.register(32)
    a, b = program.register(32), program.register(32)
    which = dice.number(0, 6)
    if which == 0:
        mode = dice.pick(("rn", "rz"))
        text = f"cvt.{mode}{relu or '.relu'}{finite}.{half}.f32 {program.register(16)}, {a};"
    elif which == 1:
        text = f"cvt.{dice.pick(('rn', 'rz'))}{relu}{finite}.{half}x2.f32 {wide}, {a}, {b};"
    elif which == 2:
        source = dice.pick(
            (f"f32 {program.register(16)}, {a}, {b}", f"f16x2 {program.register(16)}, {a}")
        )
        text = f"cvt.rn.satfinite{relu}.{dice.pick(_TINY)}x2.{source};"
    elif which == 3:
        text = f"cvt.rn{relu}.{half}x2.{dice.pick(_TINY)}x2 {wide}, {program.register(16)};"
    elif which == 4:
        mode = dice.pick(("rn", "rz", "rna"))
        relu = "" if mode == "rna" else relu
        text = f"cvt.{mode}{finite}{relu}.tf32.f32 {wide}, {a};"
    elif which == 5:
        text = f"cvt.{dice.pick(('rn', 'rz', 'rm', 'rp'))}.bf16.f32 {program.register(16)}, {a};"
    else:
        to = dice.pick((f"f32.bf16 {wide}", f"f64.bf16 {program.register(64)}"))
        text = f"cvt.{to}, {program.register(16)};"
    program.add(guard + text)


def choose(program: Program) -> None:
    """Emit copies of signs, tests of properties, and selections."""
    dice, guard = program.dice, program.guard()
    bits = dice.pick((32, 64))
    which = dice.number(0, 2)
    if which == 0:
        a, b = program.source(bits, real=True), program.source(bits, real=True)
        text = f"copysign.f{bits} {program.register(bits)}, {a}, {b};"
    elif which == 1:
        a = program.source(bits, real=True)
        text = f"testp.{dice.pick(_PROPERTIES)}.f{bits} {program.predicate()}, {a};"
    else:
        by = dice.pick((".s32", ".f32"))
        flush = _optional(dice, ".ftz") if by == ".f32" else ""
        a, b = program.register(bits), program.register(bits)
        text = (
            f"slct{flush}.b{bits}{by} {program.register(bits)}, {a}, {b}, {program.register(32)};"
        )
    program.add(guard + text)


STATEMENTS: tuple[Callable[[Program], None], ...] = (
    *(arithmetic,) * 3,
    emit_mixed,
    *(convert,) * 2,
    choose,
)
