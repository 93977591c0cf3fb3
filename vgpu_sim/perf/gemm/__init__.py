"""Products of matrices: C[m, n] = A[m, k] B[k, n], as a library's best kernel would do it."""

from vgpu_sim.perf.gemm.model import Model, Shapes

__all__ = ["Model", "Shapes"]
