"""Triton kernels of arithmetic sequences.

PyTorch's CUDA kernels are compiled with fused multiplication and addition, so these use it as well.
"""

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
            start = start.to(tl.float32)
            value = tl.fma(i.to(tl.float32), distance.to(tl.float32), start)
        else:
            value = tl.fma(i.to(tl.float64), distance, start)
    tl.store(out + i, value.to(out.dtype.element_ty), mask=i < count)


@triton.jit(do_not_specialize=["first", "last", "step", "count"])
def between(
    out, first: tl.int64, last: tl.int64, step: tl.int64, count,
    narrow: tl.constexpr, single: tl.constexpr, whole: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill with numbers from first to last: the upper half is counted back from last.

    The ends and the step are bits of doubles. ``narrow`` rounds each operation to the target's
    type; ``whole`` truncates the results.
    """
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    is_low = i < count // 2
    index = tl.where(is_low, i, count - 1 - i)
    origin = tl.where(is_low, first, last).to(tl.float64, bitcast=True)
    distance = step.to(tl.float64, bitcast=True)
    distance = tl.where(is_low, distance, -distance)
    if narrow:
        kind = out.dtype.element_ty
        place = index.to(tl.float32).to(kind).to(tl.float32)
        product = (place * distance.to(tl.float32)).to(kind).to(tl.float32)
        value = origin.to(tl.float32) + product
    elif single:
        value = tl.fma(index.to(tl.float32), distance.to(tl.float32), origin.to(tl.float32))
    else:
        value = tl.fma(index.to(tl.float64), distance, origin)
    if whole:
        value = value.to(tl.int64)
    tl.store(out + i, value.to(out.dtype.element_ty), mask=i < count)
