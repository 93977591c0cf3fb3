"""PTX kernels that execute one collective in each thread, and their expected results."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from support.oracles import warp_oracle

THREADS_MASK = 0xFFFF_FFFF

COLLECTIVES = (
    *(f"shfl.sync.{mode}.b32" for mode in ("up", "down", "bfly", "idx")),
    *(f"vote.sync.{mode}.pred" for mode in ("all", "any", "uni")),
    "vote.sync.ballot.b32",
    *(f"match.{mode}.sync.{type_}" for mode in ("any", "all") for type_ in ("b32", "b64")),
    *(f"redux.sync.{op}.{type_}" for op in ("add", "min", "max") for type_ in ("u32", "s32")),
    *(f"redux.sync.{op}.b32" for op in ("and", "or", "xor")),
    *(f"redux.sync.{op}{m}.f32" for op in ("min", "max") for m in ("", ".abs", ".NaN", ".abs.NaN")),
    "elect.sync",
    "bar.warp.sync",
)

_HEADER = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{
.reg .b32 %t, %a, %b, %c, %m, %d, %o, %x, %y, %z, %k;
.reg .b64 %w, %pin, %pout;
.reg .pred %p, %q, %f, %g;
mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z;
mov.u32 %o, %ntid.y; mad.lo.u32 %t, %z, %o, %y;
mov.u32 %o, %ntid.x; mad.lo.u32 %t, %t, %o, %x;
mov.u32 %x, %ntid.y; mul.lo.u32 %o, %o, %x; mov.u32 %x, %ntid.z; mul.lo.u32 %o, %o, %x;
mov.u32 %x, %ctaid.x; mad.lo.u32 %k, %x, %o, %t;
ld.param.u64 %pin, [in]; mad.wide.u32 %pin, %k, 24, %pin;
ld.param.u64 %pout, [out]; mad.wide.u32 %pout, %k, 8, %pout;
ld.global.b64 %w, [%pin]; cvt.u32.u64 %a, %w;
ld.global.b32 %b, [%pin+8]; ld.global.b32 %c, [%pin+12]; ld.global.b32 %m, [%pin+16];
ld.global.b32 %x, [%pin+20]; setp.ne.u32 %g, %x, 0;
and.b32 %x, %a, 1; setp.ne.u32 %f, %x, 0; setp.ne.u32 %p, 0, 0; mov.u32 %d, 0;
"""
_FOOTER = """
selp.b32 %x, 1, 0, %p;
st.global.v2.b32 [%pout], {%d, %x};
ret;
}
"""


@dataclass(frozen=True)
class Lane:
    """A thread's operands (a has 64 bits), its member mask, and whether it takes part."""

    a: int
    b: int
    c: int
    members: int
    there: int = 1

    def pack(self) -> bytes:
        return b"".join(
            value.to_bytes(size, "little")
            for value, size in zip(
                (self.a, self.b, self.c, self.members, self.there), (8, 4, 4, 4, 4), strict=True
            )
        )


def instruction(spelling: str, *, way: tuple[str, str] = ("%b", "%c"), members: str = "%m") -> str:
    """Return the collective with the template's registers as operands."""
    opcode = spelling.split(".")[0]
    match opcode:
        case "shfl":
            return f"{spelling} %d|%p, %a, {way[0]}, {way[1]}, {members};"
        case "vote":
            return f"{spelling} {'%d' if 'ballot' in spelling else '%p'}, %f, {members};"
        case "match":
            value = "%w" if spelling.endswith("b64") else "%a"
            return f"{spelling} {'%d|%p' if 'all' in spelling else '%d'}, {value}, {members};"
        case "redux":
            return f"{spelling} %d, %a, {members};"
        case "elect":
            return f"{spelling} %d|%p, {members};"
    return f"{spelling} {members};"


def text(body: str) -> str:
    """Return a kernel that executes ``body``; %g is true in participating threads, %d and %p are
    stored.
    """
    return f"{_HEADER}{body}{_FOOTER}"


def evaluate(spelling: str, warp: Sequence[Lane]) -> list[tuple[int, int]]:
    """Return (d, p) of each lane of one warp; (0, 0) for one that does not take part."""
    wide = spelling.endswith("b64")
    given = [(lane.a if wide else lane.a & THREADS_MASK, lane.b, lane.c) for lane in warp]
    results = []
    for index, lane in enumerate(warp):
        mates = {
            other for other, mate in enumerate(warp) if lane.members >> other & 1 and mate.there
        }
        found = (0, 0)
        if lane.there:
            found = warp_oracle.result(spelling.split("."), index, mates, given)
        results.append(found)
    return results


def lanes(dice: random.Random, count: int, *, kind: str, absent: bool = False) -> list[Lane]:
    """Return the threads of a warp; ``kind`` of member masks: all, tiles, classes, one."""
    names = [0] * 32
    match kind:
        case "all":
            names = [THREADS_MASK] * 32
        case "tiles":
            size = dice.choice([1, 2, 4, 8, 16])
            names = [((1 << size) - 1) << (lane - lane % size) for lane in range(32)]
        case "classes":
            colours = [dice.randrange(dice.choice([2, 3, 9])) for _ in range(32)]
            names = [
                sum(1 << other for other in range(32) if colours[other] == colours[lane])
                for lane in range(32)
            ]
        case "one":
            names = [1 << lane for lane in range(32)]
    few = dice.random() < 0.5
    clamps = [0x1F, 0, 0x1C1F, 0x181F, 0x101F, 0x1E00, 0x1800]
    shared = (dice.randrange(32), dice.choice(clamps))
    result = []
    for lane in range(count):
        b, c = (
            shared if few else (dice.getrandbits(32), dice.choice([*clamps, dice.getrandbits(32)]))
        )
        a = dice.choice([dice.getrandbits(64), dice.randrange(3), dice.choice(_FLOATS)])
        if kind == "all" and few and dice.random() < 0.9:
            a = 7
        there = int(not absent or dice.random() < 0.7)
        result.append(Lane(a, b, c, names[lane], there))
    return result


_FLOATS = (0x3F80_0000, 0xBF80_0000, 0x7FC0_0001, 0xFF80_0000, 0x8000_0000, 0, 1, 0x7F80_0000)
