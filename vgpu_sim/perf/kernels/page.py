"""The drawings of a run: a roofline plot of its kernels, and the causes of each one's time.

The roofs (Williams, Waterman and Patterson, 2009) are peaks from the data sheet: DRAM's rate,
the operations of the vector units, and those of the tensor cores for the types that the kernels
use. Each point is the mean of a kernel's launches: operations per byte of DRAM, and operations
per modelled time.
"""

from collections.abc import Sequence
from typing import Final

from drawing.causes import Stack, draw_causes
from drawing.documents import Figure, make_table
from drawing.elements import Element, element
from drawing.roofline import Point, Roof, draw_roofline
from vgpu_sim.perf.kernels.chip import Chip
from vgpu_sim.perf.kernels.pipes import Pipe
from vgpu_sim.perf.kernels.predict import Estimate
from vgpu_sim.records import dataclass

_MOST: Final = 24  # most kernels that get bars of their own
_TENSOR_TYPES: Final = ("fp16", "bf16", "tf32")
_HEAD: Final = ("Kernel", "Number", "Launches", "Total us", "Mean us", "Bound by")


@dataclass(frozen=True, slots=True)
class PlottedKernel:
    """A kernel with one shape: the number of its launches, their time in microseconds, and the
    estimate of the first launch. ``estimate`` is None if that launch could not be sampled.
    ``call`` is the name without the shape, for bars; by default ``name``.
    """

    name: str
    launches: int
    us: float
    estimate: Estimate | None
    call: str = ""


def figures(chip: Chip, kernels: Sequence[PlottedKernel]) -> list[Figure]:
    """Return the drawings of a run's kernels, those that took most time first; none of none."""
    if not kernels:
        return []
    every = sorted(kernels, key=lambda kernel: -kernel.us)
    named = {str(number): kernel for number, kernel in enumerate(_sampled(kernels), 1)}
    rows = _rows(named, every)
    table = make_table("Kernels of the run", _HEAD, rows, numbers_from=1)
    stacks = draw_causes(stacks_of(kernels))
    drawings = [Figure("Causes of each kernel's time (modelled)", stacks, (table,))]
    points = {
        key: point for key, kernel in named.items() if (point := point_of(kernel)) is not None
    }
    roofed = [
        Roof(name, chip.dram_peak / 1e3, top)
        for name, top in roofs(chip, list(named.values())).items()
    ]
    plot = draw_roofline(roofed, list(points.values()))
    left_out = [key for key in named if key not in points]
    if plot is not None:
        notes = (_left_out(left_out),) if left_out else ()
        drawings.append(Figure("Roofline (modelled)", plot, notes))
    return drawings


def stacks_of(kernels: Sequence[PlottedKernel]) -> list[Stack]:
    """Return the causes of a launch of each sampled kernel, those that took most time first."""
    return [
        Stack(f"{number} {kernel.call or kernel.name}", kernel.estimate.us, kernel.estimate.stack)
        for number, kernel in enumerate(_sampled(kernels), 1)
        if kernel.estimate is not None
    ]


def _sampled(kernels: Sequence[PlottedKernel]) -> list[PlottedKernel]:
    every = sorted(kernels, key=lambda kernel: -kernel.us)
    return [kernel for kernel in every if kernel.estimate is not None][:_MOST]


def point_of(kernel: PlottedKernel) -> Point | None:
    """Return a kernel's point in the plot: operations per byte of DRAM, and Gflop/s. None if either
    is unknown.
    """
    estimate = kernel.estimate
    if estimate is None:
        return None
    flop, moved = estimate.counts.blocks * estimate.counts.flop, estimate.times.traffic.dram
    if flop <= 0 or moved <= 0:
        return None
    return Point(kernel.name, flop / moved, flop / estimate.us / 1e3)


def roofs(chip: Chip, kernels: Sequence[PlottedKernel]) -> dict[str, float]:
    """Return the peak rates of arithmetic that limit some of the kernels, in Gflop/s by name. These
    are the peaks of the vector units, and the peaks of the tensor types that some kernel uses.
    """
    share = chip.sms / chip.board.sms.value
    counts = [kernel.estimate.counts for kernel in kernels if kernel.estimate is not None]
    peaks = {"fp32": chip.sms * chip.lanes[Pipe.FMA] * 2 * chip.ghz}
    if any(launch_counts.pipe_fp16 for launch_counts in counts):  # pairs of two elements
        peaks["fp16"] = chip.sms * chip.lanes[Pipe.FP16] * 4 * chip.ghz
    for kind in _TENSOR_TYPES:
        if any(getattr(launch_counts, f"tensor_{kind}") for launch_counts in counts):
            peaks[f"{kind} tensor"] = chip.board.tensor_tflops[kind].value * 1e3 * share
    return peaks


def _left_out(keys: Sequence[str]) -> Element:
    text = "Without operations on floats, or without bytes of DRAM, and so not in the plot"
    return element("p", f"{text}: {', '.join(keys)}.")


def _rows(named: dict[str, PlottedKernel], every: Sequence[PlottedKernel]) -> list[tuple[str, ...]]:
    keys = {id(kernel): key for key, kernel in named.items()}
    return [
        (
            kernel.name,
            keys.get(id(kernel), "-"),
            str(kernel.launches),
            f"{kernel.us:.2f}",
            f"{kernel.us / max(1, kernel.launches):.2f}",
            kernel.estimate.bound_by if kernel.estimate is not None else "not sampled",
        )
        for kernel in every
    ]
