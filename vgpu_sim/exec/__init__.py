"""Semantics of the instruction set: the interpreter (the specification) and the JIT. No cycles."""
