"""Kernels that users write: what sampled blocks did, and the time that a board would take."""

from vgpu_sim.perf.kernels.chip import Chip, chip_of
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.predict import Estimate, estimate

__all__ = ["Chip", "Counts", "Estimate", "chip_of", "estimate"]
