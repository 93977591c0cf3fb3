"""Kernels on device memory against PoCL, native code and libraries."""
