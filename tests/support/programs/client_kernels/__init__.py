"""Kernels from other compilers, with their expected results."""
