"""gpud: owns a node's simulated GPUs, their MIG instances, and who may compute on them.

Speaks only the contracts of ``hal``; what computes lives in worker processes that it starts and
never looks into. Entry point: ``vgpu_sim.gpud``.
"""
