"""Kernels of other compilers, with their expected results."""
