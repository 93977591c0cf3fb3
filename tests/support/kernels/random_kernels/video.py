"""Random video instructions and arithmetic on packed integers."""

from collections.abc import Callable

from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.program import Program

_SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
_SIMD = (*_SCALAR, "vavrg")
_PARTS = ("b0", "b1", "b2", "b3", "h0", "h1")
_ORDERS = ("eq", "ne", "lt", "le", "gt", "ge")
_TYPES = ("u32", "s32")


def _selected(program: Program, operand: str) -> str:
    """Return an operand; a register usually with a part selected."""
    if operand.startswith("%r") and program.dice.number(0, 2):
        return f"{operand}.{program.dice.pick(_PARTS)}"
    return operand


def scalar_video(program: Program) -> None:
    """Emit a scalar video instruction, with a second operation, a merge or neither."""
    program.add(program.guard() + scalar_text(program))


def scalar_text(program: Program) -> str:
    """Return a scalar video instruction."""
    dice = program.dice
    kinds = [dice.pick(_TYPES) for _ in range(3)]
    a, b = (_selected(program, program.source(32)) for _ in range(2))
    to, c = program.register(32), program.source(32)
    sat = dice.pick(("", ".sat"))
    kind = dice.number(0, 7)
    if kind == 0:
        return _vmad(program, kinds, to)
    if kind == 1:
        name = f"vset.{kinds[1]}.{kinds[2]}.{dice.pick(_ORDERS)}"
    elif kind < 4:
        count = str(dice.number(0, 40)) if dice.one_in(2) else b
        b = count
        over = dice.pick(("clamp", "wrap"))
        name = f"{dice.pick(('vshl', 'vshr'))}.{kinds[0]}.{kinds[1]}.u32{sat}.{over}"
    else:
        name = f"{dice.pick(_SCALAR)}.{'.'.join(kinds)}{sat}"
    how = dice.number(0, 2)
    if how == 0:
        return f"{name} {to}, {a}, {b};"
    if how == 1:
        return f"{name}.{dice.pick(('add', 'min', 'max'))} {to}, {a}, {b}, {c};"
    return f"{name} {to}.{dice.pick(_PARTS)}, {a}, {b}, {c};"


def _vmad(program: Program, kinds: list[str], to: str) -> str:
    dice = program.dice
    a, b = (_selected(program, program.register(32)) for _ in range(2))
    c = program.register(32)
    po = ""
    signs = dice.pick((("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"), ("-", "-", "")))
    if dice.one_in(4):
        po, signs = ".po", ("", "", "")
    name = f"vmad.{'.'.join(kinds)}{po}{dice.pick(('', '.sat'))}"
    name += dice.pick(("", ".shr7", ".shr15"))
    return f"{name} {to}, {signs[0]}{a}, {signs[1]}{b}, {signs[2]}{c};"


def _simd_selector(dice: Dice, count: int, operand: str) -> str:
    if not operand.startswith("%r") or dice.one_in(2):
        return operand
    digits = "".join(str(dice.number(0, 2 * count - 1)) for _ in range(count))
    return f"{operand}.{'h' if count == 2 else 'b'}{digits}"


def simd_video(program: Program) -> None:
    """Emit a video instruction on two halves or four bytes."""
    program.add(program.guard() + simd_text(program))


def simd_text(program: Program) -> str:
    """Return a SIMD video instruction."""
    dice = program.dice
    count = dice.pick((2, 4))
    kinds = [dice.pick(_TYPES)] * 3 if dice.one_in(2) else [dice.pick(_TYPES) for _ in range(3)]
    to, c = program.register(32), program.source(32)
    if dice.one_in(3):
        written = "".join(str(i) for i in reversed(range(count)) if dice.one_in(2)) or "0"
        to = f"{to}.{'h' if count == 2 else 'b'}{written}"
    a, b = (_simd_selector(dice, count, program.source(32)) for _ in range(2))
    if dice.one_in(6):
        name = f"vset{count}.{kinds[1]}.{kinds[2]}.{dice.pick(_ORDERS)}{dice.pick(('', '.add'))}"
    else:
        last = dice.pick(("", ".sat", ".add"))
        name = f"{dice.pick(_SIMD)}{count}.{'.'.join(kinds)}{last}"
    return f"{name} {to}, {a}, {b}, {c};"


def emit_packed(program: Program) -> None:
    """Emit arithmetic on two halves; types of four bytes need targets that no board has."""
    dice = program.dice
    to, a, b = (program.register(32) for _ in range(3))
    name = dice.pick(("add", "min", "max", "min.relu", "max.relu"))
    sign = "s" if name.endswith("relu") else dice.pick("us")
    text = f"{name}.{sign}16x2 {to}, {a}, {b};"
    program.add(program.guard() + text)


STATEMENTS: tuple[Callable[[Program], None], ...] = (scalar_video, simd_video, emit_packed)
