"""The Triton kernel that keeps a stream busy."""

import triton
import triton.language as tl


@triton.jit
def wait(duration):
    """Return after so many nanoseconds."""
    timer: tl.constexpr = "mov.u64 $0, %globaltimer;"
    start = tl.inline_asm_elementwise(timer, "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    time_ns = start
    while time_ns - start < duration:
        time_ns = tl.inline_asm_elementwise(timer, "=l", [], dtype=tl.int64, is_pure=False, pack=1)
