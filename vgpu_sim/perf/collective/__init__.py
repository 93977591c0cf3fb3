"""Collective operations among the GPUs of one node, as NCCL performs them."""

from vgpu_sim.perf.collective.model import Calls, Model

__all__ = ["Calls", "Model"]
