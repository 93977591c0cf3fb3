"""Kernels of scaled dot-product attention that programs choose by name."""
