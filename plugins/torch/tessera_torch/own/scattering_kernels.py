"""A Triton kernel that writes or combines elements at computed places."""

import triton
import triton.language as tl


@triton.jit
def scatter(out, places, source, count, operation: tl.constexpr, block: tl.constexpr):
    """Combine source[i] into out[places[i]]: 0 writes, 1 adds, 2 is the maximum, 3 the minimum."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = i < count
    place = tl.load(places + i, mask=inside, other=0)
    value = tl.load(source + i, mask=inside, other=0)
    if operation == 0:
        tl.store(out + place, value, mask=inside)
    elif operation == 1:
        tl.atomic_add(out + place, value, mask=inside, sem="relaxed")
    elif operation == 2:
        tl.atomic_max(out + place, value, mask=inside, sem="relaxed")
    else:
        tl.atomic_min(out + place, value, mask=inside, sem="relaxed")


@triton.jit
def add_runs(target, places, values, count, block: tl.constexpr):
    """Add values to their places, which are sorted: the first of a place adds all, in order."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    place = tl.load(places + i, mask=i < count, other=-1)
    first = (i < count) & (tl.load(places + i - 1, mask=(i > 0) & (i < count), other=-1) != place)
    total = tl.load(target + place, mask=first, other=0)
    adds = first
    while tl.max(adds.to(tl.int32), 0) > 0:
        total = tl.where(adds, total + tl.load(values + i, mask=adds, other=0), total)
        i += 1
        adds = adds & (tl.load(places + i, mask=adds & (i < count), other=-1) == place)
    tl.store(target + place, total, mask=first)
