"""PTX that is part of the compiler: code that a program's text does not contain.

Its syntax tree has no positions, so that messages and debuggers name the place in the program.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from vgpu_sim.compiler.ptx import parse, tree

HEADER = ".version 9.4\n.target sm_100a\n.address_size 64\n"


def _keep(name: str) -> str:
    return name


def parse_fragment(text: str, rename: Callable[[str], str] = _keep) -> tree.Module:
    """Parse PTX of the compiler's own; ``rename`` returns the name to use instead of a name."""
    module: tree.Module = _rewrite(parse(text), rename)
    return module


def _rewrite(node: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(node, tuple):
        return tuple(_rewrite(part, rename) for part in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changed: dict[str, Any] = {}
    for part in fields(node):
        value = getattr(node, part.name)
        if part.name in ("line", "column"):
            changed[part.name] = 0
        elif part.name in ("name", "text") and isinstance(value, str):
            changed[part.name] = rename(value)
        else:
            changed[part.name] = _rewrite(value, rename)
    return replace(node, **changed)
