"""Mixtures of experts: grouped products over the experts that tokens chose, and the way there."""

from vgpu_sim.perf.moe.loads import Calls
from vgpu_sim.perf.moe.model import Model

__all__ = ["Calls", "Model"]
