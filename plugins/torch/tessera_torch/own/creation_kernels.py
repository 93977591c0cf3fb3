"""A Triton kernel of arithmetic sequences."""

import triton
import triton.language as tl


@triton.jit
def sequence(out, numbers, count, whole: tl.constexpr, single: tl.constexpr, block: tl.constexpr):
    """Fill with first + i * step; ``numbers`` has both."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    first = tl.load(numbers)
    step = tl.load(numbers + 1)
    if whole:
        value = first + i * step
    elif single:
        value = first.to(tl.float32) + i.to(tl.float32) * step.to(tl.float32)
    else:
        value = first + i.to(tl.float64) * step
    tl.store(out + i, value.to(out.dtype.element_ty), mask=i < count)
