"""Functions for long arithmetic of matrix instructions, which a module has once.

Inlined, the code would exceed the instruction cache and the vector registers.
"""

import re
from collections.abc import Sequence
from typing import Final

from vgpu_sim.exec.jit.text.writer import Text

_LOCATION: Final = re.compile(r", !dbg !\d+$", re.MULTILINE)


def convention() -> str:
    """Return the calling convention that passes 16 vectors in registers, where there is one."""
    from vgpu_sim.exec.jit.target import llvm

    return "x86_regcallcc " if llvm.vector_bits() == 512 else ""


def define_function(
    own: Text,
    name: str,
    parameters: Sequence[str],
    type_: str,
    values: Sequence[str],
    linkage: str,
) -> str:
    """Return a function whose body is that of ``own``, and whose results are ``values``."""
    results = "{ " + ", ".join([type_] * len(values)) + " }"
    aggregate = "poison"
    for n, value in enumerate(values):
        aggregate = own.let(f"insertvalue {results} {aggregate}, {type_} {value}, {n}")
    own.do(f"ret {results} {aggregate}")
    body = _LOCATION.sub("", "\n".join(["entry:", *own.body]))
    head = f"define {linkage}{results} @{name}({', '.join(parameters)}) #1 {{"
    return f"{head}\n{body}\n}}"
