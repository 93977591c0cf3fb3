"""Driver functions that kernels call: vprintf, __assertfail, malloc, free and __cxa_pure_virtual,
and the device runtime's barrier of a grid (cudaCGSynchronize) and conditions of graphs
(cudaGraphSetConditional).

They are written in PTX (``system_calls.ptx``) and added to a module that declares and calls
them, so that both backends run them like any other function.
"""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Final

from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.fragments import parse_fragment

NAMES: Final = frozenset(
    {
        "vprintf",
        "__assertfail",
        "malloc",
        "free",
        "__cxa_pure_virtual",
        "cudaCGGetIntrinsicHandle",
        "cudaCGSynchronize",
        "cudaGraphSetConditional",
    }
)
# Read at import: a sandboxed worker opens no files.
_SOURCE: Final = Path(__file__).with_suffix(".ptx").read_text(encoding="ascii")
_OWN: Final = "__tessera_"


def add_system_calls(module: tree.Module, *, unused: bool = False) -> tree.Module:
    """Return ``module`` extended by definitions of driver functions such as ``malloc``.

    Only driver functions that the module declares and uses, but does not define, are added. With
    ``unused``, those that it only declares are added, too.
    """
    declared = {f.name: f for f in module.functions if f.body is None}
    defined = {f.name for f in module.functions if f.body is not None}
    wanted = NAMES & declared.keys() - defined
    if not wanted:
        return module
    used = [names.find_used(f.body) for f in module.functions if f.body is not None]
    used += [names.in_value(v.initial) for v in module.variables if v.initial is not None]
    if not unused and not any(wanted & some for some in used):
        return module
    library = _library()
    return replace(
        module,
        functions=(
            *module.functions,
            *(
                _as_declared(f, declared[f.name]) if f.name in declared else replace(f, line=0)
                for f in library.functions
                if f.name not in NAMES or f.name in wanted
            ),
        ),
        variables=(*module.variables, *library.variables),
    )


def _as_declared(function: tree.Function, declared: tree.Function) -> tree.Function:
    """Return a driver function at the place of its declaration. If the declaration has no result,
    as in code that ignores vprintf's, the function has none either.
    """
    body = function.body
    if declared.returns or not function.returns or body is None:
        return replace(function, line=declared.line)
    body = replace(body, statements=(*function.returns, *body.statements))
    return replace(function, line=declared.line, returns=(), body=body)


@functools.cache
def _library() -> tree.Module:
    """Return the functions, under names that no program can use, and without line numbers."""
    return parse_fragment(_SOURCE, _hidden_name)


def _hidden_name(name: str) -> str:
    return f"tessera.{name.removeprefix(_OWN)}" if name.startswith(_OWN) else name
