"""PTX instructions on any number of lanes, by the interpreter: arrays in, an array out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from support.execution.interpreted_ptx import kernel, run

Patterns = NDArray[np.unsignedinteger]
THREADS = 256


def source(body: str, result_bits: int, operand_bits: Sequence[int]) -> str:
    """Return a kernel that computes %d from %a, %b, %c, %e (of those widths), one place per thread.

    ``body`` may use %t0 to %t3, %w0 to %w3, %x0 to %x3 (16, 32, 64 bits), %p, %q and %r, too.
    Parameters are the arrays of the results and of the operands.
    """
    widths = dict(zip("dabce", (result_bits, *operand_bits), strict=False))
    lines = ["mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %i, %n, 256, %i;"]
    for place, (name, bits) in enumerate(widths.items()):
        lines.append(f"ld.param.u64 %p{name}, [p{place}];")
        lines.append(f"mad.wide.u32 %p{name}, %i, {bits // 8}, %p{name};")
        if name != "d":
            lines.append(f"ld.global.b{bits} %{name}, [%p{name}];")
    lines += [body, f"st.global.b{result_bits} [%pd], %d;"]
    registers = [f".reg .b{max(bits, 16)} %{name};" for name, bits in widths.items()]
    registers += [f".reg .b64 %p{name};" for name in widths]
    registers += [".reg .b32 %i, %n; .reg .pred %p, %q, %r;"]
    registers += [".reg .b16 %t<4>; .reg .b32 %w<4>; .reg .b64 %x<4>;"]
    parameters = ", ".join(f".param .u64 p{place}" for place in range(len(widths)))
    return kernel("\n".join(lines), parameters, registers="\n".join(registers))


def evaluate(body: str, result_bits: int, *operands: Patterns) -> Patterns:
    """Return the patterns of %d after ``body``, see ``source``."""
    count = len(operands[0])
    blocks = -(-count // THREADS)
    bits = [operand.dtype.itemsize * 8 for operand in operands]
    padded = [np.resize(operand, blocks * THREADS) for operand in operands]
    result = np.zeros(blocks * THREADS, dtype=f"<u{result_bits // 8}")
    text = source(body, result_bits, bits)
    after = run(text, [result, *padded], grid=(blocks, 1, 1), block=(THREADS, 1, 1))
    found: Patterns = after[0][:count]  # type: ignore[assignment]
    return found
