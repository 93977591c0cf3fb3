"""A Triton kernel that sorts rows of 64-bit keys in place."""

import triton
import triton.language as tl


@triton.jit
def sort_rows(keys, length, block: tl.constexpr):
    """Sort a row of a power of two of keys, by a bitonic network; one program for each row."""
    row = keys + tl.program_id(0).to(tl.int64) * length
    lane = tl.arange(0, block)
    run = 2
    while run <= length:
        distance = run // 2
        while distance > 0:
            for start in range(0, length // 2, block):
                pair = start + lane
                valid = pair < length // 2
                low = pair // distance * distance * 2 + pair % distance
                high = low + distance
                a = tl.load(row + low, mask=valid)
                b = tl.load(row + high, mask=valid)
                swap = (a > b) == ((low & run) == 0)
                tl.store(row + low, tl.where(swap, b, a), mask=valid)
                tl.store(row + high, tl.where(swap, a, b), mask=valid)
            tl.debug_barrier()
            distance = distance // 2
        run = run * 2
