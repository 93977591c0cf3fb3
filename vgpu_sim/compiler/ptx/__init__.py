"""PTX as text: lexer, recursive-descent parser and syntax tree. It knows grammar, not meaning."""

from vgpu_sim.compiler.ptx.parser import decode, parse

__all__ = ["decode", "parse"]
