"""Execution of the instruction set: the interpreter, which specifies its semantics, and the JIT.

Neither of them counts clock cycles.
"""
