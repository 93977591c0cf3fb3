"""gpud: owns a node's simulated GPUs and their MIG instances, and admits contexts to them.

It depends on the contracts of ``hal`` alone; worker processes, which gpud starts, execute the
kernels. The entry point is ``python -m vgpu_sim.gpud``.
"""
