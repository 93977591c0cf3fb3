"""Ranges of bytes that the blocks of a grid access, and their union."""

from typing import Final

import numpy as np

from vgpu_sim.exec.errors import Block
from vgpu_sim.perf.kernels.chip import SECTOR
from vgpu_sim.worker.observing.accesses import Numbers

Steps = tuple[int, int, int]
_MOST_RUNS: Final = 1 << 20  # ranges whose union is computed


def runs_of(
    own: Numbers, steps: Steps, place: Block, grid: Block
) -> tuple[Numbers, Numbers] | None:
    """Return (begins, ends) in bytes of all blocks' accesses; None if there are too many."""
    if not len(own):
        return own, own
    first = sum(step * at for step, at in zip(steps, place, strict=True))
    cut = np.flatnonzero(np.diff(own) != 1)
    begins = own[np.concatenate(([0], cut + 1))] * SECTOR - first
    ends = (own[np.concatenate((cut, [len(own) - 1]))] + 1) * SECTOR - first
    for step, count in sorted(zip(steps, grid, strict=True), key=lambda one: abs(one[0])):
        if step == 0 or count == 1:
            continue
        reach = step * (count - 1)
        if (ends - begins >= abs(step)).all():  # neighbours touch one another
            begins, ends = begins + min(0, reach), ends + max(0, reach)
        elif len(begins) * count > _MOST_RUNS:
            return None
        else:
            moves = np.arange(count, dtype=np.int64) * step
            begins = (begins[:, None] + moves).reshape(-1)
            ends = (ends[:, None] + moves).reshape(-1)
        begins, ends = _join(begins, ends)
    return begins, ends


def _join(begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Join adjacent runs of bytes."""
    if not len(begins):
        return begins, ends
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    fresh = np.concatenate(([True], begins[1:] > reached[:-1]))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(begins) - 1]))
    return begins[fresh], reached[last]


def union_bytes(begins: Numbers, ends: Numbers) -> float:
    begins, ends = _join(begins, ends)
    return float((-(-ends // SECTOR) - begins // SECTOR).sum()) * SECTOR


def share_inside(sectors: Numbers, begins: Numbers, ends: Numbers) -> float:
    """Return the share of sectors that are inside the runs."""
    begins, ends = _join(begins, ends)
    which = np.searchsorted(begins, sectors * SECTOR, side="right") - 1
    inside = (which >= 0) & (sectors * SECTOR < ends[np.maximum(which, 0)])
    return float(np.count_nonzero(inside)) / max(1, len(sectors))
