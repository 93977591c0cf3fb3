"""What the performance model predicts for the points of a bundle, without launching them.

The sampler of ``tessera perf run`` runs some blocks of each launch on the interpreter. The counters
of a context with a modelled clock are not used: the points' blocks are alike. If the sample ends
before its blocks do, a prediction is only a lower bound (``at_least``).
"""

import struct
from dataclasses import replace
from typing import Any, Final

import numpy as np

from benchmarks.silicon.times.contents import contents
from vgpu_sim import compiler
from vgpu_sim.exec.errors import ExecutionError
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute import address_map
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.kernels import Chip, chip_of, estimate
from vgpu_sim.worker.modelling.sampler import Place, sample
from vgpu_sim.worker.modelling.scaling import counts_of

_BASE: Final = address_map.APERTURE_BASES[0] + address_map.MODULE_OFFSET
_PAGE: Final = 4096
_VARIABLES: Final = 1 << 20  # room for a module's variables


def predict(board: str, point: dict[str, Any]) -> dict[str, Any]:
    """Return the predicted time in us of one point, its causes and its counts; or an error."""
    chip = chip_of(board)
    try:
        module = compiler.compile_ptx(point["ptx"], capability=(9, 0))
        function = module.function(point["entry"])
        memory, extents, packed = _memory(point)
        launch = Launch(
            function.name, tuple(point["grid"]), tuple(point["block"]), packed, point["shared"]
        )
        place = Place(_BASE, chip.sms, extents)
        launch_sample = sample(module, function, launch, place, memory)
        counts = counts_of(chip, launch_sample, None)
        prediction = estimate(chip, counts)
    except (ExecutionError, PerfError, ValueError, compiler.PtxError) as err:
        return {"error": f"{type(err).__name__}: {err}"}
    return {
        "us": prediction.us,
        "at_least": launch_sample.truncated,
        "bound_by": prediction.bound_by,
        "stack": prediction.stack,
        "counts": counts.as_dict(),
    }


def _memory(point: dict[str, Any]) -> tuple[BufferMemory, list[tuple[int, int]], bytes]:
    """Return memory with the point's buffers, their ranges, and the packed parameters."""
    data = bytearray(_VARIABLES)
    extents, packed = [(_BASE, _BASE + _VARIABLES)], b""
    for kind, *details in point["arguments"]:
        if kind == "buffer":
            array = contents(*details)
            begin = _BASE + len(data)
            packed += bytes(-len(packed) % 8) + struct.pack("<Q", begin)
            data += np.ascontiguousarray(array).view(np.uint8).data
            extents.append((begin, _BASE + len(data)))
            data += bytes(-len(data) % _PAGE)
        else:
            size = 8 if kind == "u64" else 4
            packed += bytes(-len(packed) % size)
            packed += struct.pack(
                {"u32": "<I", "s32": "<i", "u64": "<Q", "f32": "<f"}[kind], *details
            )
    return BufferMemory(_BASE, data), extents, packed


def at_clock(chip: Chip, mhz: float) -> Chip:
    """Return the chip with another clock of its multiprocessors. L2's rate follows the clock."""
    ghz = mhz / 1e3
    return replace(chip, ghz=ghz, l2_rate=chip.l2_rate * ghz / chip.ghz)
