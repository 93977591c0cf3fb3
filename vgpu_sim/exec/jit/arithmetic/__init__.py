"""Arithmetic as LLVM text: operations on scalars, vectors of lanes, whole warps and matrices.

The modules here do not depend on kernels: they emit text for given operands.
"""
