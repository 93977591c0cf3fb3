"""Collective operations of the GPUs of one node, as NCCL does them."""

from vgpu_sim.perf.collective.model import Calls, Model

__all__ = ["Calls", "Model"]
