"""Attention: scores, softmax and values in one kernel, for whole prompts and for single tokens."""

from vgpu_sim.perf.attention.geometry import Calls
from vgpu_sim.perf.attention.model import Model

__all__ = ["Calls", "Model"]
