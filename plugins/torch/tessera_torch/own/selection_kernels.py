"""A Triton kernel that keeps the positions of true elements."""

import triton
import triton.language as tl


@triton.jit
def compact(mask, ends, out, count, block: tl.constexpr):
    """Write position i to place ends[i] - 1 of the result if mask[i] is true."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = i < count
    is_true = tl.load(mask + i, mask=inside, other=0) != 0
    place = tl.load(ends + i, mask=inside, other=1) - 1
    tl.store(out + place, i, mask=inside & is_true)
