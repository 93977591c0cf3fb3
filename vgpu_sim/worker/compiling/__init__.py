"""Compilation of kernels in child processes."""
