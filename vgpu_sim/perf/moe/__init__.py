"""Mixtures of experts: routing, permutation, and grouped products over the selected experts."""

from vgpu_sim.perf.moe.loads import Calls
from vgpu_sim.perf.moe.model import Model

__all__ = ["Calls", "Model"]
