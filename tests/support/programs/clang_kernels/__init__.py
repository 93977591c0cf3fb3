"""Kernels of C++ as clang compiles them, with their oracle."""
