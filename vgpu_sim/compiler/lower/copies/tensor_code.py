"""PTX that copies or reduces a part of a tensor, as cp.async.bulk.tensor does in all of its modes.

A part is a number of rows of bytes, which ``tensor_rows`` selects. Elements outside the tensor
are not read or written in global memory; in shared memory they become the map's fill.
"""

import functools
from enum import Enum
from typing import Final

from vgpu_sim.compiler.lower.copies import library, tensor_map, tensor_rows
from vgpu_sim.compiler.lower.copies.bulk import (
    HALVES,
    MULTICAST_REGISTERS,
    REDUCTIONS,
    for_each_block,
    update_words,
)
from vgpu_sim.compiler.lower.copies.tensor_map import Mode
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
    direction: Direction,
    rank: int,
    operation: str = "",
    *,
    mode: Mode = Mode.TILE,
    multicast: bool = False,
    paired: bool = False,
) -> tree.Function:
    """Return the code for parts of a tensor of ``rank`` dimensions.

    Its parameters are the addresses of the map and of the part in shared memory, the coordinates,
    for loads of columns their offsets, for loads the address of the mbarrier, and with
    ``multicast`` the mask of blocks. With ``paired``, the mbarrier of one block of each pair gets
    the transactions of both. The result is 0, or 1 if the operands are illegal.
    """
    loads = direction is Direction.LOAD
    count = tensor_rows.coordinates_of(rank, mode)
    coordinates = "".join(f", b32 %c{n}" for n in range(count))
    offsets = tensor_rows.offsets_of(rank, mode) if loads else ()
    parameters = f"b64 %map, b32 %to{coordinates}" + "".join(f", b32 {o}" for o in offsets)
    parameters += ", b32 %bar" * loads + ", b16 %mask" * multicast
    registers = f"""
      {tensor_map.registers(rank)} {tensor_rows.registers(rank, mode)}
      .reg .pred %q, %aligned;
      .reg .b64 %from, %w64, %g; .reg .b32 %a, %b, %e, %h, %low, %high, %w32, %f<2>, %z;
      .reg .b64 %v<2>, %g<8>;
      .reg .b32 %x, %last, %s, %a0, %a16, %a32, %a48; .reg .b16 %w16, %x16, %byte, %outside;
    """
    registers += MULTICAST_REGISTERS if multicast else ""
    start = "" if loads else tensor_rows.no_offsets(rank, mode)
    start += _CHECK_SHARED
    if not loads and mode is Mode.TILE:
        start += "".join(f"setp.lt.s32 %p, %c{n}, 0; @%p bra WRONG;" for n in range(count))
    start += tensor_map.read_map(rank, mode)
    if direction is Direction.STORE:
        start += _CHECK_STORE
    if direction is Direction.REDUCE:
        start += _check_type(operation)
    row = _REDUCE_ROW.format(update=_update(operation)) if operation else _ROWS[direction]
    row = f"{_ALIGNED}{row}"
    rows = tensor_rows.for_each_row(rank, mode, row)
    body = "\n".join((start, _BOUNDS, _FILL if loads else "", rows, _COMPLETE if loads else ""))
    if multicast:
        body = for_each_block(body, ("%to", "%bar"), paired="%bar" * paired)
    body = f"mov.b32 %wrong, 0; {body} bra CHECKED; WRONG: mov.b32 %wrong, 1; CHECKED:"
    name = f"tessera.tensor.{direction.value}.{mode.name}.{rank}d.{operation}{multicast}{paired}"
    return library.function(name, parameters, registers, body, results="b32 %wrong")


_CHECK_SHARED: Final = f"""
  and.b32 %k, %to, {tensor_map.SHARED_ALIGNMENT_BYTES - 1}; setp.ne.u32 %p, %k, 0; @%p bra WRONG;
"""
# A copy to global memory discards the padding of elements of 6 bits. There is none of elements of 4
# bits with padding, and none with exchanged halves.
_CHECK_STORE: Final = f"""
  setp.eq.u32 %p, %type, {tensor_map.B4X16_P64}; setp.ne.u32.or %p, %flip, 0, %p; @%p bra WRONG;
"""
# The bytes of a row that are inside of dimension 0 are those from %low to %high; the row begins at
# %place0 plus the offsets of the other dimensions.
_BOUNDS: Final = """
  cvt.u64.u32 %wide, %span; mul.lo.s64 %wide, %wide, %first; shr.s64 %wide, %wide, 4;
  add.u64 %place0, %wide, %base;
  cvt.u64.u32 %g, %row;
  neg.s64 %wide, %first; max.s64 %wide, %wide, 0; min.s64 %wide, %wide, %g;
  cvt.u32.u64 %low, %wide;
  sub.s64 %wide, %length, %first; max.s64 %wide, %wide, 0; min.s64 %wide, %wide, %g;
  cvt.u32.u64 %high, %wide;
  mov.b32 %last, 1; shl.b32 %last, %last, %shift; sub.u32 %last, %last, 1;
"""
_ALIGNED: Final = """
  mov.b32 %j, 0; and.b64 %wide, %g, 15; setp.eq.u64.and %aligned, %wide, 0, %whole;
"""
# The fill of 8 bytes: zeros, or NaNs of which all bits but the sign are set.
_FILL: Final = """
  mov.b32 %f0, 0x7f7f7f7f; mov.b32 %f1, %f0;
  setp.eq.u32 %p, %shift, 1; selp.b32 %f0, 0x7fff7fff, %f0, %p; selp.b32 %f1, %f0, %f1, %p;
  setp.ge.u32 %p, %shift, 2; selp.b32 %f0, 0x7fffffff, %f0, %p; selp.b32 %f1, %f0, %f1, %p;
  setp.eq.u32 %p, %shift, 3; selp.b32 %f0, 0xffffffff, %f0, %p;
  setp.eq.u32 %p, %fill, 0; selp.b32 %f0, 0, %f0, %p; selp.b32 %f1, 0, %f1, %p;
"""


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
  setp.eq.u64.and %p, %extra, 0, %p;
  @!%p bra ROW;
  shr.b32 %s, %to, %turn; and.b32 %s, %s, %chunks; mov.b32 %a, %to; mov.b64 %from, %g;
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


# The byte or element of a row at %j is at %from and, swizzled, at %a.
_PLACE: Final = """
  add.u32 %a, %to, %j; shr.b32 %k, %a, %turn; and.b32 %k, %k, %chunks;
  shr.b32 %z, %a, 4; and.b32 %z, %z, %flip; xor.b32 %a, %a, %k;
  cvt.u64.u32 %from, %j; add.s64 %wide, %from, %first; shr.s64 %wide, %wide, %slice;
  mul.lo.s64 %wide, %wide, %extra;
  add.u64 %from, %from, %g; add.u64 %from, %from, %wide;
"""
# The part of a row of 16 bytes at %j ends at %e.
_PART: Final = f"""
ROW:
  {_PLACE}
  @%whole bra WHOLE;
  shr.u32 %k, %j, 4; mul.wide.u32 %from, %k, %span; add.u64 %from, %from, %g;
WHOLE:
  add.u32 %e, %j, 16;
  setp.ge.u32 %p, %j, %low; setp.le.u32.and %p, %e, %h, %p; and.pred %p, %p, %aligned;
  @!%p bra PARTLY;
"""
_NEXT: Final = """
NEXT:
  mov.b32 %j, %e; setp.lt.u32 %p, %j, %row; @%p bra ROW;
END:
"""
_BYTE: Final = """
  mov.b32 %b, 0; mov.b32 %s, %a;
BYTE:
  add.u32 %a, %s, %b; xor.b32 %a, %a, %z;
  add.u32 %k, %j, %b; setp.ge.u32 %p, %k, %low; setp.lt.u32.and %p, %k, %h, %p;
"""
_NEXT_BYTE: Final = """
  add.u64 %from, %from, 1;
  add.u32 %b, %b, 1; setp.lt.u32 %p, %b, %span; @%p bra BYTE;
"""
# 16 bytes of shared memory with an element of 6 bits each become 12 bytes of global memory.
_PACK: Final = """
  setp.ne.u32 %p, %span, 12; @%p bra BYTES;
  mov.b32 %b, 0;
PACK:
  add.u32 %s, %a, %b; ld.shared.b32 %k, [%s]; and.b32 %x, %k, 0x3f;
  shr.u32 %s, %k, 2; and.b32 %s, %s, 0xfc0; or.b32 %x, %x, %s;
  shr.u32 %s, %k, 4; and.b32 %s, %s, 0x3f000; or.b32 %x, %x, %s;
  shr.u32 %s, %k, 6; and.b32 %s, %s, 0xfc0000; or.b32 %x, %x, %s;
  st.global.b8 [%from], %x; shr.u32 %x, %x, 8; st.global.b8 [%from+1], %x;
  shr.u32 %x, %x, 8; st.global.b8 [%from+2], %x; add.u64 %from, %from, 3;
  add.u32 %b, %b, 4; setp.lt.u32 %p, %b, 16; @%p bra PACK;
  bra NEXT;
BYTES:
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
  {_PACK}
  {_BYTE}
  @%p ld.shared.b8 %byte, [%a];
  @%p st.global.b8 [%from], %byte;
  {_NEXT_BYTE}{_NEXT}""",
}
# One element after the other.
_REDUCE_ROW: Final = f"""
ELEMENT:
  setp.lt.u32 %p, %j, %low; setp.ge.u32.or %p, %j, %h, %p; @%p bra SKIP;
  {_PLACE} xor.b32 %a, %a, %z;
  {{update}}
SKIP:
  add.u32 %j, %j, %last; add.u32 %j, %j, 1; setp.lt.u32 %p, %j, %row; @%p bra ELEMENT;
"""


def _type_for(operation: str, type_: str) -> str | None:
    """Return the type with which a reduction updates elements of ``type_``; None if it cannot."""
    if operation in ("and", "or", "xor") and type_[0] in "us":
        type_ = f"b{type_[1:]}"
    if operation == "add" and type_ == "s64":
        type_ = "u64"
    return type_ if type_ in REDUCTIONS[operation] else None


def _check_type(operation: str) -> str:
    """Return PTX that branches to WRONG if the map's type has no such reduction."""
    kinds = sum(
        (_type_for(operation, type_) is not None) << n for n, type_ in enumerate(tensor_map.TYPES)
    )
    return (
        f"mov.b32 %k, {kinds}; shr.u32 %k, %k, %type; and.b32 %k, %k, 1;"
        " setp.eq.u32 %p, %k, 0; @%p bra WRONG;"
    )


def _update(operation: str) -> str:
    """Return PTX that updates the element at %from by that at %a, according to its type."""
    by_type: dict[str, list[int]] = {}
    for number, type_ in enumerate(tensor_map.TYPES):
        element_type = _type_for(operation, type_)
        if element_type is not None:
            by_type.setdefault(element_type, []).append(number)
    lines = []
    for type_, numbers in by_type.items():
        if operation in ("min", "max") and type_ in HALVES:
            words = _update_half(operation, type_)
        else:
            words, _ = update_words(operation, type_, Space.GLOBAL, to="%from", source="%a")
        kinds = sum(1 << number for number in numbers)
        lines += [
            f"mov.b32 %k, {kinds}; shr.u32 %k, %k, %type; and.b32 %k, %k, 1;",
            f"setp.eq.u32 %p, %k, 0; @%p bra NOT_{type_};",
            f"{words} bra SKIP;",
            f"NOT_{type_}:",
        ]
    return "\n".join(lines)


def _update_half(operation: str, type_: str) -> str:
    """Return PTX for a minimum or maximum of one half, of which memory has only pairs.

    The other half of the pair is combined with a NaN, which changes no number.
    """
    return f"""
      ld.shared.b16 %w16, [%a]; mov.b16 %x16, 0x7fff; cvt.u32.u64 %k, %from; and.b32 %k, %k, 2;
      setp.ne.u32 %p, %k, 0; @!%p bra LOW_{type_};
      sub.u64 %from, %from, 2; red.global.{operation}.noftz.v2.{type_} [%from], {{%x16, %w16}};
      bra SKIP;
    LOW_{type_}:
      red.global.{operation}.noftz.v2.{type_} [%from], {{%w16, %x16}};
    """


# The transaction of a whole part is complete, whatever is inside the tensor. Padding has no bytes.
_COMPLETE: Final = """
  cvt.u32.u64 %x, %boxes; shr.u32 %k, %row, 4; mul.lo.u32 %k, %k, %span; mul.lo.u32 %x, %x, %k;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], %x;
"""
