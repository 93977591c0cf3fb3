"""Kernels that move bytes and compute little: element by element, row by row, and copies."""

from vgpu_sim.perf.stream.model import Calls, Model

__all__ = ["Calls", "Model"]
