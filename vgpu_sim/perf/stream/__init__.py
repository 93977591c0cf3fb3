"""Kernels that move bytes and hardly compute: element by element, row by row, copies."""

from vgpu_sim.perf.stream.model import Calls, Model

__all__ = ["Calls", "Model"]
