"""Kernels of this package, where PyTorch's decompositions end."""
