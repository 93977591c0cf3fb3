"""Kernels that users write: counts from sampled blocks, and the predicted time on a board."""

from vgpu_sim.perf.kernels.chip import Chip, chip_of
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.predict import Estimate, estimate

__all__ = ["Chip", "Counts", "Estimate", "chip_of", "estimate"]
