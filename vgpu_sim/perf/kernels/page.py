"""The HTML page of a run: a roofline plot of its kernels, and the causes of each one's time.

The roofs (Williams, Waterman and Patterson, 2009) are peaks from the data sheet: DRAM's rate,
the operations of the vector units, and those of the tensor cores for the types that the kernels
use. Each point is the mean of a kernel's launches: operations per byte of DRAM, and operations
per modelled time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np

from vgpu_sim.perf import plots
from vgpu_sim.perf.kernels.chip import Chip
from vgpu_sim.perf.kernels.pipes import Pipe
from vgpu_sim.perf.kernels.predict import Estimate

_MOST: Final = 24  # most kernels that get bars of their own
_TENSOR_TYPES: Final = ("fp16", "bf16", "tf32")


@dataclass(frozen=True, slots=True)
class PlottedKernel:
    """A kernel with one shape: the number of its launches, their time in microseconds, and the
    estimate of the first launch. ``estimate`` is None if that launch could not be sampled.
    """

    name: str
    launches: int
    us: float
    estimate: Estimate | None


def page(chip: Chip, kernels: Sequence[PlottedKernel], lines: Sequence[str]) -> str:
    """Return the HTML page of a run; ``lines`` are the text of the report. Raises NoData if
    matplotlib is not installed.
    """
    every = sorted(kernels, key=lambda one: -one.us)
    sampled = [one for one in every if one.estimate is not None]
    named = {f"{number}": one for number, one in enumerate(sampled[:_MOST], 1)}
    drawn = {key: point for key, one in named.items() if (point := _point(one))}
    parts = []
    if named:
        parts.append(
            plots.side_by_side(
                lambda axes: _roofline(axes, chip, list(named.values()), drawn),
                lambda axes: _causes(axes, named),
            )
        )
    left_out = [key for key in named if key not in drawn]
    if left_out:
        parts.append(
            f"<p>Without operations on floats, or without bytes of DRAM, and so not in the plot: "
            f"{', '.join(left_out)}.</p>"
        )
    parts.append(_table(named, every))
    parts.append(f"<pre>{escape(chr(10).join(lines))}</pre>")
    where = f"{chip.board.product} ({chip.sms} multiprocessors)"
    intro = f"<p>Modelled for {escape(where)}: kernels were not measured on it.</p>"
    return plots.document("kernels of a run", "\n".join([intro, *parts]))


def _point(one: PlottedKernel) -> tuple[float, float] | None:
    """Return a kernel's point in the plot: operations per byte of DRAM, and Gflop/s. None if either
    is unknown.
    """
    found = one.estimate
    if found is None:
        return None
    flop, moved = found.counts.blocks * found.counts.flop, found.times.traffic.dram
    return (flop / moved, flop / found.us / 1e3) if flop > 0 and moved > 0 else None


def roofs(chip: Chip, kernels: Sequence[PlottedKernel]) -> dict[str, float]:
    """Return the peak rates of arithmetic that limit some of the kernels, in Gflop/s by name. These
    are the peaks of the vector units, and the peaks of the tensor types that some kernel uses.
    """
    share = chip.sms / chip.board.sms.value
    counts = [one.estimate.counts for one in kernels if one.estimate is not None]
    found = {"fp32": chip.sms * chip.lanes[Pipe.FMA] * 2 * chip.ghz}
    if any(one.pipe_fp16 for one in counts):  # pairs of two elements
        found["fp16"] = chip.sms * chip.lanes[Pipe.FP16] * 4 * chip.ghz
    for kind in _TENSOR_TYPES:
        if any(getattr(one, f"tensor_{kind}") for one in counts):
            found[f"{kind} tensor"] = chip.board.tensor_tflops[kind].value * 1e3 * share
    return found


def _roofline(
    axes: Any, chip: Chip, kernels: Sequence[PlottedKernel], drawn: dict[str, tuple[float, float]]
) -> None:
    tops = roofs(chip, kernels)
    rate = chip.dram_peak / 1e3  # GB/s
    ridges = [top / rate for top in tops.values()]
    intensities = [x for x, _ in drawn.values()]
    low, high = min([0.05, *intensities]) / 2, max([*ridges, *intensities]) * 4
    for name, top in tops.items():
        at = np.geomspace(low, high, 200)
        axes.plot(at, np.minimum(at * rate, top), linewidth=0.8, label=f"{name} {top:.4g} Gflop/s")
    for key, (x, y) in drawn.items():
        axes.plot([x], [y], "o", color="black", markersize=3)
        axes.annotate(key, (x, y), textcoords="offset points", xytext=(4, 3))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations a byte of DRAM")
    axes.set_ylabel("Gflop/s (modelled)")
    axes.set_title(f"DRAM {rate:.4g} GB/s")
    axes.legend(fontsize=7, loc="lower right")


def _causes(axes: Any, named: dict[str, PlottedKernel]) -> None:
    stacks = [one.estimate.stack for one in named.values() if one.estimate is not None]
    labels, below = list(named), np.zeros(len(stacks))
    totals = np.array([sum(stack.values()) for stack in stacks])
    for cause in dict.fromkeys(name for stack in stacks for name in stack):
        share = 100 * np.array([stack.get(cause, 0.0) for stack in stacks]) / totals
        axes.bar(labels, share, bottom=below, label=cause, width=0.9)
        below += share
    axes.set_xlabel("kernel")
    axes.set_ylabel("share of causes (%)")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


def _table(named: dict[str, PlottedKernel], every: Sequence[PlottedKernel]) -> str:
    keys = {id(one): key for key, one in named.items()}
    rows = [plots.row(("kernel", "", "launches", "total us", "mean us", "bound by"), "th")]
    rows += [
        plots.row(
            (
                *(escape(one.name), keys.get(id(one), "-"), one.launches, f"{one.us:.2f}"),
                f"{one.us / max(1, one.launches):.2f}",
                escape(one.estimate.bound_by) if one.estimate is not None else "not sampled",
            )
        )
        for one in every
    ]
    return f"<table>{''.join(rows)}</table>"
