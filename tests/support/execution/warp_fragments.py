"""Running one instruction of a warp on fragments that are arrays, on both executors."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

Array = NDArray[np.generic]
WARPS: Final = 2
GRID: Final = 2


def plans_of(module: Module) -> list[jit.Plan | None]:
    """Return plans of each kind: the default, single lanes, and the last legal one."""
    legal = list(jit.legal_plans(module.functions[0], (32 * WARPS, 1, 1)))
    assert any(plan.width > 1 for plan in legal)
    return [None, jit.Plan(1, 1), legal[-1]]


def _load(name: str, place: int, counts: dict[str, int], bits: int) -> str:
    """Return PTX that reads a fragment's registers: those of a lane are contiguous."""
    size = counts[name] * bits // 8
    lines = [f"ld.param.u64 %p{name}, [p{place}]; mad.wide.u32 %p{name}, %i, {size}, %p{name};"]
    lines += [
        f"ld.global.b{bits} %{name}{n}, [%p{name}+{n * bits // 8}];" for n in range(counts[name])
    ]
    return "\n".join(lines)


def run_fragments(
    instruction: str,
    fragments: dict[str, tuple[Array, int]],
    results: int,
    bits: int,
    grid: int = GRID,
) -> Array:
    """Run ``instruction`` on {d}, {a}, {b}, {c} and others; return the registers of {d}.

    Each of ``fragments`` is an array (warps, 32, registers) and the registers' bits. All legal kinds of
    plans and the interpreter must agree.
    """
    counts = {name: array.shape[-1] for name, (array, _) in fragments.items()} | {"d": results}
    widths = {name: width for name, (_, width) in fragments.items()} | {"d": bits}
    registers = {
        name: "{" + ", ".join(f"%{name}{n}" for n in range(count)) + "}"
        for name, count in counts.items()
    }
    declared = "\n".join(
        f".reg .b{widths[name]} %{name}<{count}>; .reg .b64 %p{name};"
        for name, count in counts.items()
    )
    body = [f"mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %i, %n, {32 * WARPS}, %i;"]
    body += [_load(name, place, counts, widths[name]) for place, name in enumerate(fragments, 1)]
    body += [instruction.format(**registers)]
    body += [f"ld.param.u64 %pd, [p0]; mad.wide.u32 %pd, %i, {results * bits // 8}, %pd;"]
    body += [f"st.global.b{bits} [%pd+{n * bits // 8}], %d{n};" for n in range(results)]
    parameters = ", ".join(f".param .u64 p{n}" for n in range(len(fragments) + 1))
    source = kernel("\n".join(body), parameters, registers=declared + ".reg .b32 %i, %n;")
    module = compile_verified(source)
    threads = 32 * WARPS * grid
    buffers = [bytes(threads * results * bits // 8)]
    buffers += [array.tobytes() for array, _ in fragments.values()]
    found = compare(module, buffers, (grid, 1, 1), (32 * WARPS, 1, 1), plans_of(module))
    return np.frombuffer(found[0], f"<u{bits // 8}").reshape(-1, 32, results)
