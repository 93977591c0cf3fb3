"""Kernels by a seed: loops over data, imbalance, reuse distances, cache operators, and mixtures.

Each is PTX of compute capability 8.0 with three buffers: ``data`` (32-bit numbers that determine
trip counts and gathered indices), ``source`` and ``target`` (a word for each thread).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, int, int]
WORDS = 1 << 14  # of data and source
_HEAD = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pd, .param .u64 ps, .param .u64 pt, .param .u32 n)
{
.shared .align 16 .b8 tile[8192];
.reg .pred %p<40>;
.reg .b32 %r<99>;
.reg .f32 %f<9>;
.reg .b64 %rd<40>;
ld.param.u64 %rd0, [pd];
ld.param.u64 %rd1, [ps];
ld.param.u64 %rd2, [pt];
ld.param.u32 %r9, [n];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mad.lo.u32 %r3, %r1, %r2, %r0;
cvt.rn.f32.u32 %f0, %r0;
mov.f32 %f1, 0f3F800347;
mov.u32 %r8, 0;
mov.u32 %r4, tile;
"""
_TAIL = """
cvt.rzi.u32.f32 %r5, %f0;
add.u32 %r8, %r8, %r5;
mul.wide.u32 %rd3, %r3, 4;
add.u64 %rd3, %rd2, %rd3;
st.global.u32 [%rd3], %r8;
ret;
}
"""


@dataclass(frozen=True)
class Generated:
    """A kernel with a name of its parts, its launch, and the words of ``data``."""

    name: str
    source: str
    grid: Shape
    block: Shape
    number: int
    data: np.ndarray


class _Body:
    """Text of a kernel, with fresh labels, and the data that it needs."""

    def __init__(self, draws: random.Random, blocks: int, threads: int, *, long: bool) -> None:
        self.draws, self.blocks, self.threads, self.long = draws, blocks, threads, long
        self.text = ""
        self.labels = 0
        self.data = np.zeros(WORDS, dtype=np.uint32)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def rounds(self, most: int) -> int:
        """Draw a trip count."""
        return self.draws.randrange(2, most * (8 if self.long else 1))

    def loop(self, bound: str, inside: str) -> None:
        """Run ``inside`` ``bound`` times, a register or number that may be 0."""
        begin, end, predicate = self.label(), self.label(), self.labels % 39
        self.text += f"""mov.u32 %r10, 0;
setp.ge.u32 %p{predicate}, %r10, {bound};
@%p{predicate} bra {end};
{begin}:
{inside}
add.u32 %r10, %r10, 1;
setp.lt.u32 %p{predicate}, %r10, {bound};
@%p{predicate} bra {begin};
{end}:
"""


_FMA = "fma.rn.f32 %f0, %f0, %f1, %f1;\n"


def _chain(body: _Body) -> None:
    """Add dependent operations in a loop whose trip count is the kernel's argument."""
    body.loop("%r9", _FMA * body.draws.randrange(1, 4))


def _data_loop(body: _Body) -> None:
    """Loop with a trip count from memory: per block, per warp or per thread."""
    shift = body.draws.choice((0, 5, 6))
    body.data[:] = np.random.default_rng(body.draws.randrange(1 << 30)).integers(
        0, body.rounds(12), WORDS
    )
    body.text += f"""shr.u32 %r11, %r3, {shift};
and.b32 %r11, %r11, {WORDS - 1};
mul.wide.u32 %rd5, %r11, 4;
add.u64 %rd5, %rd0, %rd5;
ld.global.u32 %r12, [%rd5];
"""
    body.loop("%r12", _FMA)


def _imbalance(body: _Body) -> None:
    """Give one block, or all blocks from one on, much more work."""
    which, end = body.draws.randrange(body.blocks), body.label()
    compare = body.draws.choice(("ne", "ne", "lt"))
    body.text += f"setp.{compare}.u32 %p0, %r1, {which};\n@%p0 bra {end};\n"
    body.loop(str(body.rounds(120)), _FMA)
    body.text += f"{end}:\n"


def _triangle(body: _Body) -> None:
    """Loop with the block's index as trip count."""
    body.loop("%r1", _FMA)


def _rotated(body: _Body) -> None:
    """Read the words that blocks at some distance read, too."""
    distance = body.draws.choice((1, 3, 5, 7, 11, 33)) * body.threads
    body.loop(
        str(body.rounds(12)),
        f"""mad.lo.u32 %r11, %r10, {distance}, %r3;
and.b32 %r11, %r11, {WORDS - 1};
mul.wide.u32 %rd5, %r11, 4;
add.u64 %rd5, %rd1, %rd5;
ld.global.u32 %r12, [%rd5];
add.u32 %r8, %r8, %r12;""",
    )


def _cached(body: _Body) -> None:
    """Read the same words repeatedly, with some cache operator."""
    operator = body.draws.choice((".ca", ".cg", ".cs", ".lu", ".cv", ""))
    stride = body.draws.choice((1, 1, 2, 8))
    body.loop(
        str(body.rounds(16)),
        f"""mad.lo.u32 %r11, %r3, {stride}, 0;
and.b32 %r11, %r11, {WORDS - 1};
mul.wide.u32 %rd5, %r11, 4;
add.u64 %rd5, %rd1, %rd5;
ld.global{operator}.u32 %r12, [%rd5];
add.u32 %r8, %r8, %r12;""",
    )


def _shared(body: _Body) -> None:
    """Access shared memory with some stride, between barriers."""
    stride = body.draws.choice((1, 2, 4, 8, 32, 33))
    body.text += f"""mul.lo.u32 %r11, %r0, {4 * stride};
and.b32 %r11, %r11, 8191;
add.u32 %r11, %r11, %r4;
st.shared.u32 [%r11], %r3;
bar.sync 0;
"""
    body.loop(str(body.rounds(10)), "ld.shared.u32 %r12, [%r11];\nadd.u32 %r8, %r8, %r12;")
    body.text += "bar.sync 0;\n"


def _updates(body: _Body) -> None:
    """Update one word, or one for each thread."""
    index = body.draws.choice(("0", "%r0", "%r3"))
    body.text += f"""mov.u32 %r11, {index};
and.b32 %r11, %r11, {WORDS - 1};
mul.wide.u32 %rd5, %r11, 4;
add.u64 %rd5, %rd1, %rd5;
"""
    body.loop(str(body.rounds(6)), "red.global.add.u32 [%rd5], %r0;")


def _diverging(body: _Body) -> None:
    """Make the lanes of a warp diverge onto two paths."""
    other, end = body.label(), body.label()
    body.text += f"""and.b32 %r11, %r0, {body.draws.choice((1, 3, 16))};
setp.ne.u32 %p0, %r11, 0;
@%p0 bra {other};
{_FMA * body.draws.randrange(2, 9)}bra {end};
{other}:
{_FMA * body.draws.randrange(2, 9)}{end}:
"""


def _gathered(body: _Body) -> None:
    """Load by indices that are loaded from memory."""
    places = np.random.default_rng(body.draws.randrange(1 << 30)).integers(0, WORDS, WORDS)
    body.data[:] = places
    body.text += f"""and.b32 %r11, %r3, {WORDS - 1};
mul.wide.u32 %rd5, %r11, 4;
add.u64 %rd5, %rd0, %rd5;
ld.global.u32 %r11, [%rd5];
mul.wide.u32 %rd5, %r11, 4;
add.u64 %rd5, %rd1, %rd5;
ld.global.u32 %r12, [%rd5];
add.u32 %r8, %r8, %r12;
"""


PARTS: dict[str, Callable[[_Body], None]] = {
    "chain": _chain,
    "data": _data_loop,
    "imbalance": _imbalance,
    "triangle": _triangle,
    "rotated": _rotated,
    "cached": _cached,
    "shared": _shared,
    "updates": _updates,
    "diverging": _diverging,
    "gathered": _gathered,
}
_ONE_OF = ("data", "gathered")  # both fill ``data``


def generate(seed: int, *, long: bool = False) -> Generated:
    """Return the kernel of a seed: of one part for the first seeds, then of up to three parts."""
    draws = random.Random(seed)
    names = [list(PARTS)[seed % len(PARTS)]]
    if seed >= len(PARTS):
        names += draws.sample(list(PARTS), draws.randrange(0, 3))
    names = [
        name
        for at, name in enumerate(names)
        if name not in names[:at]
        and not (name in _ONE_OF and any(other in _ONE_OF for other in names[:at]))
    ]
    blocks = draws.choice((1, 20, 33, 48)) * (2 if long else 1)
    threads = draws.choice((32, 48, 64, 128))
    body = _Body(draws, blocks, threads, long=long)
    for name in names:
        PARTS[name](body)
    return Generated(
        f"{seed}: {' + '.join(names)}, {blocks} blocks of {threads}",
        _HEAD + body.text + _TAIL,
        (blocks, 1, 1),
        (threads, 1, 1),
        body.rounds(40),
        body.data,
    )
