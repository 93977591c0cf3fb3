"""Random loads and stores: legal ones, whose addresses are computed in many ways, and wild ones."""

from support.kernels.random_kernels.program import SCRATCH_BYTES, TABLE_WORDS, WILD_BYTE, Program

_TABLE_BYTES = 4 * TABLE_WORDS
_KINDS = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "f64")
SYMBOLS = ("lookup", "gray")
SYMBOL_WORDS = 16


def _shape(program: Program) -> tuple[str, int, int]:
    """Return a type, its size in bytes, and the number of elements that one access moves."""
    kind = program.dice.pick(_KINDS)
    size = int(kind[1:]) // 8
    most = min(4, 16 // size)
    vector = program.dice.pick((1, 1, 1, 2, most))
    return kind, size, vector


def _data(program: Program, kind: str, vector: int, *, load: bool) -> str:
    """Return the registers of an access; an element of a loaded vector may be dropped."""
    dice, bits = program.dice, int(kind[1:])
    widths = [w for w in (16, 32, 64) if w == bits or (w > bits and kind[0] != "f")]
    registers: list[str] = []
    for _ in range(vector):
        name = program.register(dice.pick(widths))
        if load and (name in registers or (vector > 1 and dice.one_in(6))):
            name = "_" if any(r != "_" for r in registers) else name
        registers.append(name)
    return registers[0] if vector == 1 else "{" + ", ".join(registers) + "}"


def _modifiers(program: Program, kind: str, vector: int, space: str) -> str:
    return f"{space}{f'.v{vector}' if vector > 1 else ''}.{kind}"


def load(program: Program) -> None:
    """Read the table, or one of the module's arrays, at an index from anywhere."""
    dice = program.dice
    kind, size, vector = _shape(program)
    step = size * vector
    base, length, space = "%table", _TABLE_BYTES, dice.pick((".global", ".global", ""))
    if dice.one_in(6):
        name = dice.pick(SYMBOLS)
        base, length = program.temporary(64), 4 * SYMBOL_WORDS
        program.add(f"mov.u64 {base}, {name};")
        if dice.one_in(2):
            window = "const" if name == SYMBOLS[0] else "global"
            program.add(f"cvta.{window}.u64 {base}, {base};")
            space = ""
        else:
            space = ".const" if name == SYMBOLS[0] else ".global"
    address, displacement = _inside(program, base, length, step)
    data = _data(program, kind, vector, load=True)
    form = _modifiers(program, kind, vector, space)
    program.add(f"{program.guard()}ld{form} {data}, [{address}{displacement}];")


def _inside(program: Program, base: str, length: int, step: int) -> tuple[str, str]:
    """Return an address within ``base`` and ``length``, a multiple of ``step`` from its start."""
    dice, count = program.dice, length // step
    index, wide, address = program.temporary(32), program.temporary(64), program.temporary(64)
    displacement = ""
    kind = dice.number(0, 10)
    if kind < 2:
        program.add(f"and.b32 {index}, {program.source(32)}, {count - 1};")
    elif kind == 2:
        program.add(f"rem.u32 {index}, {program.source(32)}, {count};")
    elif kind == 3:
        origin = dice.pick(("%laneid", "%tid.x", "%tid.y"))
        program.add(f"add.u32 {index}, {origin}, {dice.number(0, 6)};")
        program.add(f"min.u32 {index}, {index}, {count - 1};")
    elif kind == 4:
        origin = dice.pick((str(dice.number(0, count - 1)), "%n", "%m"))
        program.add(f"mov.b32 {index}, {origin};")
        program.add(f"and.b32 {index}, {index}, {count - 1};")
    elif kind < 8:
        _by_float(program, index, count)
    else:
        program.add(f"and.b64 {wide}, {_pattern(program)}, {count - 1};")
        if dice.one_in(2):
            program.add(f"mad.lo.{dice.pick('us')}64 {address}, {wide}, {step}, {base};")
        else:
            program.add(f"mul.lo.s64 {wide}, {wide}, {step};")
            program.add(f"add.s64 {address}, {base}, {wide};")
        return _disguised(program, address), displacement
    if dice.one_in(3) and count > 8:
        shift = dice.number(0, 3)
        program.add(f"min.u32 {index}, {index}, {count - 1 - shift};")
        displacement = f"+{step * shift}" if shift else ""
    kind = dice.number(0, 3)
    if kind == 0:
        program.add(f"mad.wide.{dice.pick('us')}32 {address}, {index}, {step}, {base};")
    elif kind == 1:
        program.add(f"mul.wide.{dice.pick('us')}32 {wide}, {index}, {step};")
        program.add(f"add.s64 {address}, {base}, {wide};")
    elif kind == 2:
        program.add(f"cvt.u64.u32 {wide}, {index};")
        program.add(f"shl.b64 {wide}, {wide}, {step.bit_length() - 1};")
        program.add(f"add.u64 {address}, {wide}, {base};")
    else:
        program.add(f"mul.lo.u32 {index}, {index}, {-step};")
        program.add(f"cvt.s64.s32 {wide}, {index};")
        program.add(f"sub.s64 {address}, {base}, {wide};")
    return _disguised(program, address), displacement


def _by_float(program: Program, index: str, count: int) -> None:
    """Return an index that was converted to a floating-point number and back."""
    dice = program.dice
    program.add(f"and.b32 {index}, {program.source(32)}, {4 * count - 1};")
    rounding = dice.pick(("rni", "rzi", "rmi"))
    if dice.one_in(2):
        program.add(f"cvt.rn.f32.u32 {index}, {index};")
        program.add(f"mul.rn.f32 {index}, {index}, 0f3e800000;")
        program.add(f"cvt.{rounding}.u32.f32 {index}, {index};")
    else:
        real = program.temporary(64)
        program.add(f"cvt.rn.f64.u32 {real}, {index};")
        program.add(f"mul.rn.f64 {real}, {real}, 0d3fd0000000000000;")
        program.add(f"cvt.{rounding}.u32.f64 {index}, {real};")
    program.add(f"min.u32 {index}, {index}, {count - 1};")


def _disguised(program: Program, address: str) -> str:
    """Return the same address, perhaps computed in an indirect way."""
    dice, other = program.dice, program.temporary(64)
    kind = dice.number(0, 9)
    if kind == 0:
        program.add(f"xor.b64 {other}, {address}, 0x5555;")
        program.add(f"xor.b64 {other}, {other}, 0x5555;")
    elif kind == 1:
        pattern = _pattern(program)
        program.add(f"add.s64 {other}, {address}, {pattern};")
        program.add(f"sub.s64 {other}, {other}, {pattern};")
    elif kind == 2:
        half = dice.pick((8, 32, 48))
        program.add(f"sub.s64 {other}, {address}, {1 << half};")
        program.add(f"{program.guard()}mov.b64 {other}, {other};")
        program.add(f"add.s64 {other}, {other}, {1 << half};")
    elif kind == 3:
        low, high = program.temporary(32), program.temporary(32)
        program.add(f"mov.b64 {{{low}, {high}}}, {address};")
        program.add(f"mov.b64 {other}, {{{low}, {high}}};")
    else:
        return address
    return other


def _pattern(program: Program) -> str:
    """Return a 64-bit register of any origin: computed, converted, loaded, or a float's pattern."""
    dice = program.dice
    kind = dice.number(0, 6)
    if kind < 2:
        return program.register(64)
    to = program.temporary(64)
    if kind == 2:
        source = dice.pick(("u32", "s32", "u16", "s64", "u64"))
        program.add(f"cvt.rn.f64.{source} {to}, {program.register(int(source[1:]))};")
    elif kind == 3:
        other = program.temporary(64)
        program.add(f"cvt.rn.f64.u32 {to}, {program.source(32)};")
        program.add(f"cvt.rn.f64.u32 {other}, {program.source(32)};")
        program.add(f"sub.s64 {to}, {to}, {other};")
    elif kind == 4:
        narrow = program.temporary(32)
        program.add(f"cvt.rn.f32.{dice.pick('us')}32 {narrow}, {program.source(32)};")
        program.add(f"cvt.{dice.pick('us')}64.{dice.pick('us')}32 {to}, {narrow};")
    elif kind == 5:
        program.add(f"mul.wide.{dice.pick('us')}32 {to}, {program.source(32)}, %r0;")
        program.add(f"shl.b64 {to}, {to}, {dice.number(0, 40)};")
    else:
        program.add(f"cvt.f64.f32 {to}, {program.register(32)};")
    return to


def store(program: Program) -> None:
    """Write to the part of this thread's slot that later loads may read."""
    kind, size, vector = _shape(program)
    offset = size * vector * program.dice.number(0, SCRATCH_BYTES // (size * vector) - 1)
    data = _data(program, kind, vector, load=False)
    form = _modifiers(program, kind, vector, program.dice.pick((".global", "")))
    program.add(f"{program.guard()}st{form} [{_own(program)}+{offset}], {data};")


def reload(program: Program) -> None:
    """Read back from this thread's slot, perhaps with another width than that of the store."""
    kind, size, vector = _shape(program)
    offset = size * vector * program.dice.number(0, SCRATCH_BYTES // (size * vector) - 1)
    data = _data(program, kind, vector, load=True)
    form = _modifiers(program, kind, vector, program.dice.pick((".global", "")))
    program.add(f"{program.guard()}ld{form} {data}, [{_own(program)}+{offset}];")


def _own(program: Program) -> str:
    return _disguised(program, "%out") if program.dice.one_in(4) else "%out"


def parameter(program: Program) -> None:
    """Read a parameter, or a part of one."""
    dice = program.dice
    name, kind = dice.pick((("n", "u32"), ("n", "s16"), ("m", "u8"), ("w", "u64"), ("f", "f32")))
    size = int(kind[1:]) // 8
    place = size * dice.number(0, 4 // size - 1) if size < 4 else 0
    data = _data(program, kind, 1, load=True)
    program.add(f"{program.guard()}ld.param.{kind} {data}, [{name}+{place}];")


def wild(program: Program) -> None:
    """Read or write through an address that is most likely outside this kernel's memory."""
    dice = program.dice
    kind, _, vector = _shape(program)
    address = program.temporary(64)
    shape, base = dice.number(0, 5), dice.pick(("%table", "%table", "%out", "%w"))
    pattern = _pattern(program)
    if shape < 3:
        program.add(f"{dice.pick(('add', 'add', 'sub'))}.s64 {address}, {base}, {pattern};")
    elif shape == 3:
        program.add(f"add.s64 {address}, {base}, {pattern};")
        program.add(f"add.s64 {address}, {address}, {_pattern(program)};")
    elif shape == 4:
        narrow = program.source(32)
        program.add(
            f"mad.wide.{dice.pick('us')}32 {address}, {narrow}, {program.source(32)}, {base};"
        )
    else:
        address = dice.pick((pattern, program.register(32), "64", base))
    displacement = dice.pick(("", "", f"+{16 * dice.number(1, 99)}", "+2147483632", "-2147483648"))
    form = _modifiers(program, kind, vector, dice.pick((".global", "")))
    where = f"[{address}{displacement}]"
    data = _data(program, kind, vector, load=False)
    if dice.one_in(2):
        program.add(f"{program.guard()}st{form} {where}, {data};")
        return
    if vector > 1 and len(set(data.strip("{}").split(", "))) < vector:
        data = _sinks(data)
    program.add(f"{program.guard()}ld{form} {data}, {where};")
    # The compiler may remove a dead load, and with it the load's fault.
    kept = data.strip("{}").split(", ")[0]
    program.add(f"st.{kind} [%out+{WILD_BYTE}], {kept};")


def _sinks(data: str) -> str:
    """Return the first element, with sinks in place of the others."""
    first, *others = data.strip("{}").split(", ")
    return "{" + ", ".join([first, *("_" for _ in others)]) + "}"
