"""Random arithmetic instructions: every form in the compiler's binding."""

from collections.abc import Callable

from support.kernels.random_kernels import integers, steps, video
from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.program import Program

_ROUNDINGS = ("rn", "rn", "rn", "rz", "rm", "rp")
_INTEGRAL = ("rni", "rzi", "rmi", "rpi")
_CONVERTIBLE = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32", "f64")


def _bits(kind: str) -> int:
    return int(kind[1:])


def _width(dice: Dice) -> int:
    return dice.pick((32, 32, 32, 64, 64, 16))


def integer(program: Program) -> None:
    """Emit an integer operation with two operands and one result."""
    dice, bits = program.dice, _width(program.dice)
    sign = dice.pick("us")
    kind = dice.number(0, 11)
    a, b, to = program.source(bits), program.source(bits), program.register(bits)
    if kind < 4:
        text = f"{dice.pick(('add', 'sub', 'add', 'min', 'max'))}.{sign}{bits} {to}, {a}, {b};"
    elif kind < 6:
        text = f"{dice.pick(('and', 'or', 'xor'))}.b{bits} {to}, {a}, {b};"
    elif kind == 6:
        text = f"{dice.pick(('div', 'rem'))}.{sign}{bits} {to}, {a}, {b};"
    elif kind == 7:
        text = dice.pick((f"neg.s{bits}", f"abs.s{bits}", f"not.b{bits}")) + f" {to}, {a};"
    elif kind < 10:
        name = dice.pick((f"shl.b{bits}", f"shr.u{bits}", f"shr.s{bits}", f"shr.b{bits}"))
        count = str(dice.number(0, bits + 8)) if dice.one_in(2) else program.source(32)
        text = f"{name} {to}, {a}, {count};"
    else:
        text = f"mul.{dice.pick(('lo', 'lo', 'hi'))}.{sign}{bits} {to}, {a}, {b};"
        if kind == 11:
            text = f"mad.{dice.pick(('lo', 'lo', 'hi'))}.{sign}{bits} "
            text += f"{to}, {a}, {b}, {program.source(bits)};"
    program.add(program.guard() + text)


def wide(program: Program) -> None:
    """Emit a product that is twice as wide as its factors."""
    dice = program.dice
    bits, sign = dice.pick((16, 32, 32)), dice.pick("us")
    to, a, b = program.register(2 * bits), program.source(bits), program.source(bits)
    if dice.one_in(2):
        program.add(f"{program.guard()}mul.wide.{sign}{bits} {to}, {a}, {b};")
    else:
        c = program.source(2 * bits)
        program.add(f"{program.guard()}mad.wide.{sign}{bits} {to}, {a}, {b}, {c};")


def real(program: Program) -> None:
    """Emit floating-point arithmetic on the patterns that registers happen to hold."""
    dice = program.dice
    bits = dice.pick((32, 32, 32, 64))
    a, b, c = (program.source(bits, real=True) for _ in range(3))
    to = program.register(bits)
    rounding = f".{dice.pick(_ROUNDINGS)}"
    ftz = ".ftz" if bits == 32 and dice.one_in(4) else ""
    sat = ".sat" if bits == 32 and dice.one_in(6) else ""
    kind = dice.number(0, 11)
    if kind < 5:
        optional = "" if dice.one_in(4) else rounding
        name = f"{dice.pick(('add', 'sub', 'mul'))}{optional}{ftz}{sat}"
        operands = f"{a}, {b}"
    elif kind < 7:
        name, operands = f"{dice.pick(('fma', 'mad'))}{rounding}{ftz}{sat}", f"{a}, {b}, {c}"
    elif kind == 7:
        name, operands = f"{dice.pick(('neg', 'abs'))}{ftz}", a
    elif kind < 10:
        name, operands = f"{dice.pick(('min', 'max'))}{ftz}", f"{a}, {b}"
    elif kind == 10:
        how = dice.pick((".approx", ".full")) if bits == 32 and dice.one_in(3) else rounding
        name, operands = f"div{how}{ftz}", f"{a}, {b}"
    else:
        how = ".approx" if bits == 32 and dice.one_in(3) else rounding
        name, operands = f"{dice.pick(('rcp', 'sqrt'))}{how}{ftz}", a
    program.add(f"{program.guard()}{name}.f{bits} {to}, {operands};")


def convert(program: Program) -> None:
    """Emit cvt between any two types, with a rounding where PTX requires one."""
    dice = program.dice
    to, source = dice.pick(_CONVERTIBLE), dice.pick(_CONVERTIBLE)
    modifiers = _conversion(dice, to, source)
    if "f32" in (to, source) and dice.one_in(5):
        modifiers += ".ftz"
    if dice.one_in(5) and _may_saturate(to, source):
        modifiers += ".sat"
    d = program.register(dice.pick([w for w in (16, 32, 64) if w >= _bits(to)]))
    a = program.register(dice.pick([w for w in (16, 32, 64) if w >= _bits(source)]))
    program.add(f"{program.guard()}cvt{modifiers}.{to}.{source} {d}, {a};")


def _may_saturate(to: str, source: str) -> bool:
    """Return whether ``.sat`` is allowed: among integers, only if the result cannot hold every
    source.
    """
    if "f" in (to[0], source[0]):
        return True
    if to[0] == source[0]:
        return _bits(to) < _bits(source)
    return to[0] == "u" or _bits(to) <= _bits(source)


def _conversion(dice: Dice, to: str, source: str) -> str:
    real_to, real_source = to[0] == "f", source[0] == "f"
    if not real_to:
        return f".{dice.pick(_INTEGRAL)}" if real_source else ""
    if not real_source or _bits(to) < _bits(source):
        return f".{dice.pick(_ROUNDINGS)}"
    if to == source:
        return f".{dice.pick(_INTEGRAL)}" if dice.one_in(2) else ""
    return ""


def compare(program: Program) -> None:
    """Emit setp with one or two results, alone or combined with a predicate."""
    dice = program.dice
    kind = dice.pick(("u32", "s32", "b32", "f32", "f32", "u64", "s64", "f64", "u16", "s16"))
    bits, is_real = _bits(kind), kind[0] == "f"
    how = dice.pick(_COMPARISONS[kind[0]])
    first = program.predicate()
    second = program.predicate()
    targets = f"{first}|{second}" if first != second and dice.one_in(2) else first
    a, b = (program.source(bits, real=is_real) for _ in range(2))
    ftz = ".ftz" if kind == "f32" and dice.one_in(4) else ""
    if dice.one_in(3):
        c = dice.pick(("", "!")) + program.predicate()
        text = f"setp.{how}.{dice.pick(('and', 'or', 'xor'))}{ftz}.{kind} {targets}, {a}, {b}, {c};"
    else:
        text = f"setp.{how}{ftz}.{kind} {targets}, {a}, {b};"
    program.add(program.guard() + text)


_COMPARISONS = {
    "b": ("eq", "ne"),
    "s": ("eq", "ne", "lt", "le", "gt", "ge"),
    "u": ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"),
    "f": (
        *[
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "equ",
            "neu",
            "ltu",
            "leu",
            "gtu",
            "geu",
            "num",
            "nan",
        ],
    ),
}


def move(program: Program) -> None:
    """Emit instructions that do not change patterns: mov, selp, packing, unpacking, predicates."""
    dice = program.dice
    kind, guard = dice.number(0, 6), program.guard()
    bits = _width(dice)
    if kind < 2:
        program.add(f"{guard}mov.b{bits} {program.register(bits)}, {program.source(bits)};")
    elif kind < 4:
        form = dice.pick("bus") if bits == 16 else dice.pick("busf")
        a, b = (program.source(bits, real=form == "f") for _ in range(2))
        chooser = program.predicate()
        program.add(f"{guard}selp.{form}{bits} {program.register(bits)}, {a}, {b}, {chooser};")
    elif kind == 4:
        whole, part = dice.pick(((64, 32), (32, 16)))
        a, b = program.register(part), program.register(part)
        if dice.one_in(2):
            program.add(f"{guard}mov.b{whole} {program.register(whole)}, {{{a}, {b}}};")
        elif a != b:
            program.add(f"{guard}mov.b{whole} {{{a}, {b}}}, {program.register(whole)};")
    elif kind == 5:
        name = dice.pick(("and", "or", "xor"))
        operands = f"{program.predicate()}, {program.predicate()}, {program.predicate()}"
        program.add(f"{guard}{name}.pred {operands};")
    else:
        name = dice.pick(("not", "mov"))
        program.add(f"{guard}{name}.pred {program.predicate()}, {program.predicate()};")


def affine(program: Program) -> None:
    """Emit numbers that differ by a constant from lane to lane and may wrap around."""
    dice = program.dice
    narrow, wide_ = program.register(32), program.register(64)
    base = dice.pick(("%tid.x", "%laneid", "%thread", "%tid.y"))
    constant = dice.pick(("1", "-1", "-16", "0xFFFFFFC5", "0x7FFFFFF3", "40"))
    program.add(f"add.u32 {narrow}, {base}, {constant};")
    kind = dice.number(0, 3)
    if kind == 0:
        factor = dice.pick(("1", "4", "-1", "0x40000000"))
        program.add(f"mul.wide.{dice.pick('us')}32 {wide_}, {narrow}, {factor};")
    elif kind == 1:
        program.add(f"cvt.{dice.pick('us')}64.{dice.pick('us')}32 {wide_}, {narrow};")
    elif kind == 2:
        kinds = dice.pick(("u16", "s16", "u8", "s8"))
        program.add(f"cvt.{kinds}.u32 {narrow}, {narrow};")
    else:
        program.add(f"mad.lo.s32 {narrow}, {base}, {program.source(32)}, {narrow};")


def step(program: Program) -> None:
    """Emit a change that no later one cancels: the sum reveals the path of a thread."""
    register = program.register(32)
    program.add(f"add.u32 {register}, {program.register(32)}, {program.dice.number(1, 4095)};")


STATEMENTS: tuple[Callable[[Program], None], ...] = (
    *(integer,) * 6,
    *(real,) * 4,
    *(convert,) * 3,
    *(compare,) * 3,
    *(move,) * 2,
    affine,
    *(steps.steps,) * 3,
    wide,
    *integers.STATEMENTS,
    *video.STATEMENTS,
)
