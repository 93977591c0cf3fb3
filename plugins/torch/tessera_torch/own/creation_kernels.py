"""A Triton kernel of arithmetic sequences."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["first", "step", "count"])
def sequence(
    out, first: tl.int64, step: tl.int64, count,
    whole: tl.constexpr, single: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill with first + i * step; both are integers or, unless ``whole``, the bits of doubles."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    if whole:
        value = first + i * step
    else:
        start = first.to(tl.float64, bitcast=True)
        distance = step.to(tl.float64, bitcast=True)
        if single:
            value = start.to(tl.float32) + i.to(tl.float32) * distance.to(tl.float32)
        else:
            value = start + i.to(tl.float64) * distance
    tl.store(out + i, value.to(out.dtype.element_ty), mask=i < count)
