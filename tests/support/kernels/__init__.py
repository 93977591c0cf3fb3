"""Kernels that tests run, and generators of kernels."""
