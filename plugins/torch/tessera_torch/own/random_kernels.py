"""Triton kernels of random numbers: Philox, element by element as CUDA's kernels draw them."""

import triton
import triton.language as tl

_TO_UNIT = tl.constexpr(2.3283064e-10)  # 2**-32 as cuRAND rounds it
_TO_CIRCLE = tl.constexpr(2.3283064e-10 * 6.2831855)


@triton.jit
def unpack(seed, offset, inside, captured: tl.constexpr):
    """Return the seed and the offset, which a graph reads when it is replayed."""
    if captured:
        seed = tl.load(seed)
        offset = tl.load(offset) + inside
    return seed, offset


@triton.jit
def draw(seed, counter, thread):
    """Return a round's four numbers of a thread."""
    return tl.philox(
        seed,
        (counter & 0xFFFFFFFF).to(tl.uint32),
        (counter >> 32).to(tl.uint32),
        (thread & 0xFFFFFFFF).to(tl.uint32),
        (thread >> 32).to(tl.uint32),
    )


@triton.jit
def _choose(part, r0, r1, r2, r3):
    return tl.where(part == 0, r0, tl.where(part == 1, r1, tl.where(part == 2, r2, r3)))


@triton.jit
def _unit(bits):
    """Return a float in (0, 1], as curand_uniform."""
    return bits.to(tl.float32) * _TO_UNIT + _TO_UNIT / 2


@triton.jit
def unit_double(low, high):
    """Return a double in (0, 1], as curand_uniform2_double."""
    bits = low.to(tl.uint64) ^ (high.to(tl.uint64) << 21)
    return bits.to(tl.float64) * 1.1102230246251565e-16 + 5.551115123125783e-17


@triton.jit
def draw_single(
    out, count, threads, seed, offset, inside,
    captured: tl.constexpr, normal: tl.constexpr, reverse: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill with floats: element e is number e // threads of thread e % threads.

    CUDA's kernels draw from (0, 1]; ``reverse`` makes 1 the lower bound instead.
    """
    seed, offset = unpack(seed, offset, inside, captured)
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    turn = e // threads
    r0, r1, r2, r3 = draw(seed, offset // 4 + turn // 4, e % threads)
    part = turn % 4
    if normal:
        radius = tl.sqrt(-2 * tl.log(_unit(tl.where(part < 2, r0, r2))))
        angle = tl.where(part < 2, r1, r3).to(tl.float32) * _TO_CIRCLE + _TO_CIRCLE / 2
        value = radius * tl.where(part % 2 == 0, tl.sin(angle), tl.cos(angle))
    else:
        value = _unit(_choose(part, r0, r1, r2, r3))
    if reverse:
        value = tl.where(value == 1, 0, value)
    tl.store(out + e, value, mask=e < count)


@triton.jit
def draw_double(
    out, count, threads, seed, offset, inside,
    captured: tl.constexpr, normal: tl.constexpr, reverse: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill with doubles: each round of four numbers makes two."""
    seed, offset = unpack(seed, offset, inside, captured)
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    turn = e // threads
    r0, r1, r2, r3 = draw(seed, offset // 4 + turn // 2, e % threads)
    first = turn % 2 == 0
    if normal:
        radius = tl.sqrt(-2.0 * tl.log(unit_double(r0, r1)))
        angle = unit_double(r2, r3) * 6.283185307179586
        value = radius * tl.where(first, tl.sin(angle), tl.cos(angle))
    else:
        value = tl.where(first, unit_double(r0, r1), unit_double(r2, r3))
    if reverse:
        value = tl.where(value == 1, 0, value)
    tl.store(out + e, value, mask=e < count)


@triton.jit
def draw_bits(
    out, count, threads, seed, offset, inside,
    captured: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill with integers of 32 bits, or of 64."""
    seed, offset = unpack(seed, offset, inside, captured)
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    turn = e // threads
    if wide:
        r0, r1, r2, r3 = draw(seed, offset // 4 + turn // 2, e % threads)
        first = turn % 2 == 0
        high = tl.where(first, r0, r2).to(tl.uint64)
        low = tl.where(first, r1, r3).to(tl.uint64)
        value = ((high << 32) | low).to(tl.int64)
    else:
        r0, r1, r2, r3 = draw(seed, offset // 4 + turn // 4, e % threads)
        value = _choose(turn % 4, r0, r1, r2, r3).to(tl.int64)
    tl.store(out + e, value, mask=e < count)


@triton.jit
def draw_dropout(
    out, count, threads, seed, offset, inside,
    captured: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill with floats as the dropout kernel draws them: a thread has ``width`` neighbours."""
    seed, offset = unpack(seed, offset, inside, captured)
    e = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    thread = (e // width) % threads
    number = (e // width) // threads * width + e % width
    r0, r1, r2, r3 = draw(seed, offset // 4 + number // 4, thread)
    tl.store(out + e, _unit(_choose(number % 4, r0, r1, r2, r3)), mask=e < count)
