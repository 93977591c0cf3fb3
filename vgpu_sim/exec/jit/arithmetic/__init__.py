"""Arithmetic as LLVM text: operations on scalars and strips, whole warps and matrices.

Nothing here knows of a kernel: its modules write text for operands that they are given.
"""
