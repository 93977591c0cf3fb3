"""A Triton kernel of one stage of a Fourier transform of any radix."""

import triton
import triton.language as tl


@triton.jit
def transform_stage(
    source, out, table, total, length, radix, part_length, sign, block: tl.constexpr
):  # fmt: skip
    """Combine ``radix`` transforms of ``part_length`` numbers each, in rows of ``length`` pairs.

    Before the stage a row has, for each q, the transform of x[q], x[q + stride], ...; after it
    ``radix`` times fewer and longer ones (Stockham's order: no permutation is left over).
    ``table`` has the powers of exp(-2 pi i / length) in double precision.
    """
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = i < total
    row = i // length
    place = i % length
    span = radix * part_length
    group = place // span
    position = place % span
    within = position % part_length
    groups = length // span
    real = tl.zeros((block,), tl.float64)
    imag = tl.zeros((block,), tl.float64)
    for j in range(radix):
        at = (row * length + (group + groups * j) * part_length + within) * 2
        a = tl.load(source + at, mask=inside, other=0).to(tl.float64)
        b = tl.load(source + at + 1, mask=inside, other=0).to(tl.float64)
        power = (j * position % span) * groups * 2
        c = tl.load(table + power, mask=inside, other=0)
        d = tl.load(table + power + 1, mask=inside, other=0) * sign
        real += a * c - b * d
        imag += a * d + b * c
    tl.store(out + i * 2, real, mask=inside)
    tl.store(out + i * 2 + 1, imag, mask=inside)
