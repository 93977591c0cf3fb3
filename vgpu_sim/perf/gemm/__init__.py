"""Matrix products C[m, n] = A[m, k] B[k, n], with a library's best kernel."""

from vgpu_sim.perf.gemm.model import Model, Shapes

__all__ = ["Model", "Shapes"]
