"""Kernels of one atomic instruction, and a model of its effect, one thread after another."""

from dataclasses import dataclass

import numpy as np

from support.execution.interpreted_ptx import compile_verified, kernel
from support.oracles import ieee_oracle
from vgpu_sim.isa import Module

CELLS = 8
WHERE = {".global": "%a", ".shared": "%s", ".shared::cta": "%s", "": "%a", " ": "%g", "  ": "%e"}
"""The spelling of the space, and the register of the address: an address in global or shared
memory, of the space itself or generic. With two blanks, the first 20 threads access one of the
two memories, the others the other one.
"""
_BITS = ("b32", "b64")
_HALVES = {"f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64"}
OPERATIONS = {
    **dict.fromkeys(("and", "or", "xor", "exch"), _BITS),
    "cas": ("b16", *_BITS),
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
}
VECTORS = [
    *(("add", f"v{n}.f32") for n in (2, 4)),
    *((op, f"v{n}.{t}") for op in ("add", "min", "max") for n in (2, 4, 8) for t in ("f16", "bf16")),
    *((op, f"v{n}.{t}") for op in ("add", "min", "max") for n in (2, 4) for t in ("f16x2", "bf16x2")),
]  # fmt: skip
SCALARS = [(op, type_) for op, types in OPERATIONS.items() for type_ in types]


@dataclass(frozen=True)
class Shape:
    """The layout of an operand's type: number, width and kind of its pieces."""

    kind: str
    piece_bits: int
    pieces: int  # of the whole access
    registers: int
    register_bits: int

    @property
    def bytes(self) -> int:
        return self.pieces * self.piece_bits // 8


def shape_of(type_: str) -> Shape:
    vector, _, scalar = type_.rpartition(".")
    registers = int(vector[1:]) if vector else 1
    packed = scalar.endswith("x2")
    kind = scalar.removesuffix("x2")
    bits = int(kind.lstrip("busf"))
    pair = 2 if packed else 1
    return Shape(kind, bits, registers * pair, registers, bits * pair)


def apply_update(
    op: str, kind: str, bits: int, m: int, operands: list[int], *, flushed: bool
) -> int:
    """Return the content of memory after one update of one piece."""
    if op == "cas":
        return operands[1] if m == operands[0] else m
    (b,) = operands
    if kind in _HALVES:
        return _float(op, ieee_oracle.BY_NAME[_HALVES[kind]], m, b, flushed=flushed)
    mask = (1 << bits) - 1

    def number(x: int) -> int:
        return x - (1 << bits) if kind[0] == "s" and x >> (bits - 1) else x

    results = {
        "and": lambda: m & b,
        "or": lambda: m | b,
        "xor": lambda: m ^ b,
        "exch": lambda: b,
        "add": lambda: m + b,
        "inc": lambda: 0 if m >= b else m + 1,
        "dec": lambda: b if m == 0 or m > b else m - 1,
        "min": lambda: min(number(m), number(b)),
        "max": lambda: max(number(m), number(b)),
    }
    return results[op]() & mask


def _float(op: str, format_: ieee_oracle.Format, m: int, b: int, *, flushed: bool) -> int:
    def flush(x: int) -> int:
        exponent = x & format_.infinity
        return x if exponent or not flushed else x & format_.sign

    if op == "add":
        return flush(ieee_oracle.operate("FADD", (flush(m), flush(b)), format_))
    values = [ieee_oracle.decode(x, format_) for x in (m, b)]
    if "nan" in values:
        return {("nan", "nan"): format_.nan}.get(tuple(values), b if values[0] == "nan" else m)

    def key(x: int) -> int:
        magnitude = x & (format_.sign - 1)
        return -magnitude - 1 if x & format_.sign else magnitude

    return min(m, b, key=key) if op == "min" else max(m, b, key=key)


def apply_updates(
    op: str, type_: str, cells: dict[int, list[int]], places: list[int], data: np.ndarray,
    shared: list[bool], second: int,
) -> list[list[int] | None]:  # fmt: skip
    """Update ``cells`` thread by thread; return the former value that each thread finds.

    ``places`` is -1 for a thread that does not take part.
    """
    shape = shape_of(type_)
    found: list[list[int] | None] = []
    for place, row, inside in zip(places, data.tolist(), shared, strict=True):
        if place < 0:
            found.append(None)
            continue
        cell = cells[place]
        found.append(list(cell))
        for piece in range(shape.pieces):
            operands = [row[piece], *([second] if op == "cas" else [])]
            flushed = shape.kind == "f32" and not inside
            cell[piece] = apply_update(
                op, shape.kind, shape.piece_bits, cell[piece], operands, flushed=flushed
            )
    return found


def module(
    op: str, type_: str, where: str, *, red: bool, guard: str = "", words: str = ""
) -> Module:
    """Return a kernel that executes cells[index[t] % CELLS] op= data[t] and stores the old value in
    found[t].

    It updates cells in global memory, then cells in shared memory. Parameters: global cells,
    indices, data, old values, number of cells in use. ``guard`` @%p excludes threads whose cell
    is number 3.
    """
    shape = shape_of(type_)
    bits, count = shape.register_bits, shape.registers
    y, z = ([f"%{n}{i}" for i in range(count)] for n in "yz")
    noftz = ".noftz" if "f16" in type_ else ""
    first = "" if red else f"{_list(z)}, "
    third = "" if op != "cas" else ", %seven" if bits == 16 else ", 7"
    spelled = f"{'red' if red else 'atom'}{words}{where.strip()}.{op}{noftz}.{type_}"
    body = f"""
        ld.param.u64 %a, [pa]; ld.param.u64 %i, [pi]; ld.param.u64 %v, [pv]; ld.param.u64 %o, [po];
        ld.param.u32 %m, [pm];
        mov.u32 %t, %tid.x;
        mad.wide.u32 %i, %t, 4, %i;
        mad.wide.u32 %v, %t, {shape.bytes}, %v;
        mad.wide.u32 %f, %t, {shape.bytes}, %o;
        ld.global.u32 %x, [%i];
        rem.u32 %x, %x, %m;
        setp.ne.u32 %p, %x, 3;
        mov.u16 %seven, 7;
        mov.u32 %k, sm; mad.lo.u32 %s, %x, {shape.bytes}, %k;
        mad.wide.u32 %a, %x, {shape.bytes}, %a;
        mov.u64 %g, sm; cvta.shared.u64 %g, %g; mad.wide.u32 %g, %x, {shape.bytes}, %g;
        setp.ge.u32 %q, %t, 20; selp.b64 %e, %g, %a, %q;
        {_moves("ld.global", bits, y, "%v")}
        {" ".join(f"mov.b{bits} {to}, {value};" for to, value in zip(z, y, strict=True))}
        {guard} {spelled} {first}[{WHERE[where]}], {_list(y)}{third};
        {_moves("st.global", bits, z, "%f")}
        bar.sync 0;
        setp.ge.u32 %p, %t, {CELLS};
        @%p bra END;
        mad.lo.u32 %k, %t, {shape.bytes}, %k;
        mov.u32 %x, %ntid.x;
        mad.wide.u32 %o, %x, {shape.bytes}, %o; mad.wide.u32 %o, %t, {shape.bytes}, %o;
        {_moves("ld.shared", bits, z, "%k")}
        {_moves("st.global", bits, z, "%o")}
        END:
    """
    registers = ".reg .b64 %a, %i, %v, %o, %f, %g, %e; .reg .b32 %t, %x, %s, %k, %m;"
    registers += f" .reg .pred %p, %q; .reg .b16 %seven; .reg .b{bits} {', '.join(y + z)};"
    registers += f" .shared .align 16 .b8 sm[{CELLS * 16}];"
    parameters = ", ".join(f".param .u64 p{n}" for n in "aivo") + ", .param .u32 pm"
    text = kernel(body, parameters, registers=registers)
    return compile_verified(text.replace("sm_80", "sm_90"))


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _moves(opcode: str, bits: int, names: list[str], address: str) -> str:
    """Return loads or stores of the registers ``names``, four at a time."""
    lines = []
    for begin in range(0, len(names), 4):
        part = names[begin : begin + 4]
        vector = f".v{len(part)}" if len(part) > 1 else ""
        place = f"[{address}+{begin * bits // 8}]"
        operands = (
            f"{_list(part)}, {place}" if opcode.startswith("ld") else f"{place}, {_list(part)}"
        )
        lines.append(f"{opcode}{vector}.b{bits} {operands};")
    return " ".join(lines)


def operands(type_: str, count: int, seed: int) -> np.ndarray:
    """Return patterns for ``count`` threads: special ones among random ones, often few and small
    ones.
    """
    shape, rng = shape_of(type_), np.random.default_rng(seed)
    bits = shape.piece_bits
    random = (
        rng.integers(0, 1 << bits, (count, shape.pieces), dtype=np.uint64, endpoint=False)
        if bits < 64
        else rng.integers(0, 1 << 64, (count, shape.pieces), dtype=np.uint64)
    )
    special = [0, 1, 2, 7, 1 << (bits - 1), (1 << bits) - 1]
    if shape.kind in _HALVES:
        special += ieee_oracle.BY_NAME[_HALVES[shape.kind]].corners()
    chosen = rng.choice(np.array(special, dtype=np.uint64), (count, shape.pieces))
    return np.where(rng.random((count, shape.pieces)) < 0.5, chosen, random)
