"""Kernels that apply one instruction to arrays of operands, one row per thread."""

from collections.abc import Sequence
from typing import Any

from benchmarks.silicon.values.bundle import Store
from benchmarks.silicon.values.operands import Patterns

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
THREADS = 256


def case(
    name: str,
    group: str,
    body: str,
    results: Sequence[int],
    operands: Sequence[Patterns],
    store: Store,
) -> dict[str, Any]:
    """Return the case of a body that computes %d0, ... of ``results`` bits from %a, %b, %c, %e.

    It may use %t0 to %t3, %w0 to %w7, %x0 to %x3 (16, 32 and 64 bits), %p, %q and %r.
    """
    names = "abcefg"[: len(operands)]
    widths = [operand.dtype.itemsize * 8 for operand in operands]
    count = len(operands[0])
    lines = ["mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %i, %n, 256, %i;"]
    registers, place = [], 0
    for register, bits in zip(names, widths, strict=True):
        lines.append(f"ld.param.u64 %at, [p{place}]; mad.wide.u32 %at, %i, {bits // 8}, %at;")
        lines.append(f"ld.global.b{bits} %{register}, [%at];")
        registers.append(f".reg .b{max(bits, 16)} %{register};")
        place += 1
    lines.append(body)
    for number, bits in enumerate(results):
        lines.append(f"ld.param.u64 %at, [p{place}]; mad.wide.u32 %at, %i, {bits // 8}, %at;")
        lines.append(f"st.global.b{bits} [%at], %d{number};")
        registers.append(f".reg .b{max(bits, 16)} %d{number};")
        place += 1
    parameters = ", ".join(f".param .u64 p{n}" for n in range(place))
    text = (
        f"{HEAD}.visible .entry k({parameters})\n{{\n{' '.join(registers)}\n.reg .b64 %at;"
        " .reg .b32 %i, %n; .reg .pred %p, %q, %r;"
        " .reg .b16 %t<4>; .reg .b32 %w<8>; .reg .b64 %x<4>;\n" + "\n".join(lines) + "\nret;\n}\n"
    )
    buffers: list[list[Any]] = [[store.add(operand.tobytes()), 0] for operand in operands]
    buffers += [[count * bits // 8, 0] for bits in results]
    return {
        "id": name,
        "group": group,
        "ptx": text,
        "entry": "k",
        "grid": [-(-count // THREADS), 1, 1],
        "block": [THREADS, 1, 1],
        "params": bytes(8 * place).hex(),
        "buffers": buffers,
        "relocs": [["p", 8 * n, n, 0] for n in range(place)],
        "out": list(range(len(operands), place)),
    }
