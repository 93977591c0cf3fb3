"""PTX that copies or reduces a box of a tensor, as cp.async.bulk.tensor in tile mode.

A box is a row of bytes for each combination of the outer dimensions. Elements outside the tensor
are not read or written in global memory; in shared memory they become the map's fill.
"""

import functools
from enum import Enum
from typing import Final

from vgpu_sim.compiler.lower.copies import library, tensor_map
from vgpu_sim.compiler.lower.copies.bulk import (
    MULTICAST_REGISTERS,
    REDUCTIONS,
    for_each_block,
    update_words,
)
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Space

_WORDS: Final = "{%v0, %v1}"


class Direction(Enum):
    """What is done with a box."""

    LOAD = "load"
    STORE = "store"
    REDUCE = "reduce"


@functools.lru_cache(maxsize=64)
def function(
    direction: Direction, rank: int, operation: str = "", *, multicast: bool = False
) -> tree.Function:
    """Return the code for boxes of ``rank`` dimensions.

    Its parameters are the addresses of the map and of the box in shared memory, the coordinates,
    for loads the address of the mbarrier, and with ``multicast`` the mask of blocks.
    """
    loads = direction is Direction.LOAD
    coordinates = "".join(f", b32 %c{n}" for n in range(rank))
    parameters = f"b64 %map, b32 %to{coordinates}" + ", b32 %bar" * loads
    parameters += ", b16 %mask" * multicast
    dimensions = range(rank)
    registers = f"""
      {tensor_map.registers(rank)}
      .reg .b64 {", ".join(f"%index{n}, %place{n}, %far{n}" for n in dimensions)};
      .reg .b32 {", ".join(f"%left{n}" for n in dimensions)};
      .reg .pred {", ".join(f"%in{n}" for n in dimensions)}, %q, %aligned;
      .reg .b64 %from, %w64, %g; .reg .b32 %a, %b, %e, %h, %low, %high, %w32, %f<2>;
      .reg .b64 %v<2>, %g<8>;
      .reg .b32 %x, %last, %s, %a0, %a16, %a32, %a48; .reg .b16 %w16, %x16, %byte, %outside;
    """
    registers += MULTICAST_REGISTERS if multicast else ""
    start = tensor_map.read_map(rank)
    if direction is Direction.REDUCE:
        start += _check_type(operation)
    row = _REDUCE_ROW.format(update=_update(operation)) if operation else _ROWS[direction]
    end = _complete(rank) if loads else ""
    body = "\n".join((start, _BOUNDS, _FILL if loads else "", _loops(rank, row), end))
    if multicast:
        body = for_each_block(body, ("%to", "%bar"))
    name = f"tessera.tensor.{direction.value}.{rank}d.{operation}{multicast}"
    return library.function(name, parameters, registers, body)


# The bytes of a row that are inside of dimension 0 are those from %low to %high.
_BOUNDS: Final = """
  cvt.s64.s32 %index0, %c0;
  shl.b64 %place0, %index0, %shift; add.u64 %place0, %place0, %base;
  cvt.u64.u32 %g, %count0;
  neg.s64 %wide, %index0; max.s64 %wide, %wide, 0; min.s64 %wide, %wide, %g;
  cvt.u32.u64 %low, %wide; shl.b32 %low, %low, %shift;
  sub.s64 %wide, %size0, %index0; max.s64 %wide, %wide, 0; min.s64 %wide, %wide, %g;
  cvt.u32.u64 %high, %wide; shl.b32 %high, %high, %shift;
  mov.b32 %last, 1; shl.b32 %last, %last, %shift; sub.u32 %last, %last, 1;
"""
# The fill of 8 bytes: zeros, or NaNs of which all bits but the sign are set.
_FILL: Final = """
  mov.b32 %f0, 0x7f7f7f7f; mov.b32 %f1, %f0;
  setp.eq.u32 %p, %shift, 1; selp.b32 %f0, 0x7fff7fff, %f0, %p; selp.b32 %f1, %f0, %f1, %p;
  setp.ge.u32 %p, %shift, 2; selp.b32 %f0, 0x7fffffff, %f0, %p; selp.b32 %f1, %f0, %f1, %p;
  setp.eq.u32 %p, %shift, 3; selp.b32 %f0, 0xffffffff, %f0, %p;
  setp.eq.u32 %p, %fill, 0; selp.b32 %f0, 0, %f0, %p; selp.b32 %f1, 0, %f1, %p;
"""


def _loops(rank: int, row: str) -> str:
    """Return PTX that performs ``row`` for each row of a box: its address is %place0 plus the
    offsets of the outer dimensions, in %g; %h is %high, or 0 if the row is outside.
    """
    lines = []
    outer = rank - 1
    for n in range(outer, 0, -1):
        around = f"%place{n + 1}" if n < outer else "%place0"
        lines += [
            f"cvt.s64.s32 %index{n}, %c{n}; mul.lo.s64 %place{n}, %index{n}, %stride{n};",
            f"add.u64 %place{n}, %place{n}, {around}; mul.lo.s64 %far{n}, %step{n}, %stride{n};",
            f"mov.b32 %left{n}, %count{n};",
            f"BOX{n}: setp.lt.u64 %in{n}, %index{n}, %size{n};",
            f"and.pred %in{n}, %in{n}, %in{n + 1};" if n < outer else "",
        ]
    inside = "selp.b32 %h, %high, 0, %in1;" if rank > 1 else "mov.b32 %h, %high;"
    place = "%place1" if rank > 1 else "%place0"
    lines += [
        inside,
        f"mov.b32 %j, 0; mov.b64 %g, {place};",
        "and.b64 %wide, %g, 15; setp.eq.u64 %aligned, %wide, 0;",
        row,
        "add.u32 %to, %to, %pitch;",
    ]
    for n in range(1, rank):
        lines += [
            f"add.s64 %index{n}, %index{n}, %step{n}; add.u64 %place{n}, %place{n}, %far{n};",
            f"sub.u32 %left{n}, %left{n}, 1; setp.ne.u32 %p, %left{n}, 0; @%p bra BOX{n};",
        ]
    return "\n".join(lines)


# In a row that is wholly inside, 64 bytes at a time: its first part's address in shared memory is a
# multiple of the pitch, so that all of its parts are swizzled alike, by %s.
_GROUP_BYTES: Final = 64


def _groups(load: str, store: str) -> str:
    """Return PTX that copies a row's groups, then continues at ROW with what is left of it."""
    parts = range(0, _GROUP_BYTES, 16)
    words = {at: f"{{%g{at // 8}, %g{at // 8 + 1}}}" for at in parts}
    loads = "".join(load.format(words=words[at], at=at) for at in parts)
    stores = "".join(store.format(words=words[at], at=at) for at in parts)
    places = "".join(f"add.u32 %a{at}, %a, {at}; xor.b32 %a{at}, %a{at}, %s;" for at in parts)
    return f"""
  sub.u32 %k, %pitch, 1; and.b32 %k, %k, %to; setp.eq.u32 %p, %k, 0;
  setp.eq.u32.or %p, %chunks, 0, %p; and.pred %p, %p, %aligned;
  setp.eq.u32.and %p, %low, 0, %p; setp.eq.u32.and %p, %h, %row, %p;
  @!%p bra ROW;
  shr.b32 %s, %to, 3; and.b32 %s, %s, %chunks; mov.b32 %a, %to; mov.b64 %from, %g;
GROUP:
  add.u32 %e, %j, {_GROUP_BYTES}; setp.gt.u32 %p, %e, %row; @%p bra REST;
  {places}
  {loads}
  {stores}
  add.u32 %a, %a, {_GROUP_BYTES}; add.u64 %from, %from, {_GROUP_BYTES};
  mov.b32 %j, %e; bra GROUP;
REST:
  setp.ge.u32 %p, %j, %row; @%p bra END;
"""


# The part of a row of 16 bytes at %j, as far as %e, is at %from and, swizzled, at %a.
_PART: Final = """
ROW:
  add.u32 %a, %to, %j; shr.b32 %k, %a, 3; and.b32 %k, %k, %chunks; xor.b32 %a, %a, %k;
  add.u32 %e, %j, 16; cvt.u64.u32 %from, %j; add.u64 %from, %from, %g;
  setp.ge.u32 %p, %j, %low; setp.le.u32.and %p, %e, %h, %p; and.pred %p, %p, %aligned;
  @!%p bra PARTLY;
"""
_NEXT: Final = """
NEXT:
  mov.b32 %j, %e; setp.lt.u32 %p, %j, %row; @%p bra ROW;
END:
"""
_BYTE: Final = """
  mov.b32 %b, 0;
BYTE:
  add.u32 %k, %j, %b; setp.ge.u32 %p, %k, %low; setp.lt.u32.and %p, %k, %h, %p;
"""
_NEXT_BYTE: Final = """
  add.u64 %from, %from, 1; add.u32 %a, %a, 1;
  add.u32 %b, %b, 1; setp.lt.u32 %p, %b, 16; @%p bra BYTE;
"""
_ROWS: Final = {
    Direction.LOAD: _groups(
        "ld.volatile.global.v2.b64 {words}, [%from+{at}];",
        "st.volatile.shared.v2.b64 [%a{at}], {words};",
    )
    + f"""{_PART}
  ld.volatile.global.v2.b64 {_WORDS}, [%from]; st.volatile.shared.v2.b64 [%a], {_WORDS};
  bra NEXT;
PARTLY:
  setp.le.u32 %p, %e, %low; setp.ge.u32.or %p, %j, %h, %p;
  @%p st.shared.v4.b32 [%a], {{%f0, %f1, %f0, %f1}};
  @%p bra NEXT;
  {_BYTE}
  and.b32 %x, %k, %last; setp.eq.u32 %q, %x, %last; selp.b16 %outside, 0x7f, 0xff, %q;
  setp.eq.u32 %q, %fill, 0; selp.b16 %byte, 0, %outside, %q;
  @%p ld.global.b8 %byte, [%from];
  st.shared.b8 [%a], %byte;
  {_NEXT_BYTE}{_NEXT}""",
    Direction.STORE: _groups(
        "ld.volatile.shared.v2.b64 {words}, [%a{at}];",
        "st.volatile.global.v2.b64 [%from+{at}], {words};",
    )
    + f"""{_PART}
  ld.volatile.shared.v2.b64 {_WORDS}, [%a]; st.volatile.global.v2.b64 [%from], {_WORDS};
  bra NEXT;
PARTLY:
  setp.le.u32 %p, %e, %low; setp.ge.u32.or %p, %j, %h, %p; @%p bra NEXT;
  {_BYTE}
  @%p ld.shared.b8 %byte, [%a];
  @%p st.global.b8 [%from], %byte;
  {_NEXT_BYTE}{_NEXT}""",
}
# One element after the other.
_REDUCE_ROW: Final = """
ELEMENT:
  setp.lt.u32 %p, %j, %low; setp.ge.u32.or %p, %j, %h, %p; @%p bra SKIP;
  add.u32 %a, %to, %j; shr.b32 %k, %a, 3; and.b32 %k, %k, %chunks; xor.b32 %a, %a, %k;
  cvt.u64.u32 %from, %j; add.u64 %from, %from, %g;
  {update}
SKIP:
  add.u32 %j, %j, %last; add.u32 %j, %j, 1; setp.lt.u32 %p, %j, %row; @%p bra ELEMENT;
"""


def _type_for(operation: str, type_: str) -> str | None:
    """Return the type with which a reduction updates elements of ``type_``; None if it cannot."""
    if operation in ("and", "or", "xor") and type_[0] in "us":
        type_ = f"b{type_[1:]}"
    if operation == "add" and type_ == "s64":
        type_ = "u64"
    if operation in ("min", "max") and type_ in ("f16", "bf16"):
        return None  # memory has no such updates of one element
    return type_ if type_ in REDUCTIONS[operation] else None


def _check_type(operation: str) -> str:
    """Return PTX that traps if the map's type has no such reduction."""
    kinds = sum(
        (_type_for(operation, type_) is not None) << n for n, type_ in enumerate(tensor_map.TYPES)
    )
    return (
        f"mov.b32 %k, {kinds}; shr.u32 %k, %k, %type; and.b32 %k, %k, 1;"
        " setp.eq.u32 %p, %k, 0; @%p trap;"
    )


def _update(operation: str) -> str:
    """Return PTX that updates the element at %from by that at %a, according to its type."""
    by_type: dict[str, list[int]] = {}
    for number, type_ in enumerate(tensor_map.TYPES):
        found = _type_for(operation, type_)
        if found is not None:
            by_type.setdefault(found, []).append(number)
    lines = []
    for type_, numbers in by_type.items():
        words, _ = update_words(operation, type_, Space.GLOBAL, to="%from", source="%a")
        kinds = sum(1 << number for number in numbers)
        lines += [
            f"mov.b32 %k, {kinds}; shr.u32 %k, %k, %type; and.b32 %k, %k, 1;",
            f"setp.eq.u32 %p, %k, 0; @%p bra NOT_{type_};",
            f"{words} bra SKIP;",
            f"NOT_{type_}:",
        ]
    return "\n".join(lines)


def _complete(rank: int) -> str:
    """Return PTX that completes the transaction of a whole box, whatever is inside the tensor."""
    product = " ".join(f"mul.lo.u32 %row, %row, %count{n};" for n in range(1, rank))
    return f"{product} mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], %row;"
