"""PTX as text: lexer, recursive-descent parser and syntax tree. It handles grammar, not
semantics.
"""

from vgpu_sim.compiler.ptx.parser import decode, parse

__all__ = ["decode", "parse"]
