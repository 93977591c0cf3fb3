"""Driver functions that kernels call: vprintf, __assertfail, malloc, free and __cxa_pure_virtual,
and those of the device runtime: the barrier of a grid (cudaCGSynchronize), conditions of graphs
(cudaGraphSetConditional), and launches of kernels and graphs from kernels (cudaLaunchDeviceV2,
cudaGraphLaunch and others).

They are written in PTX (``system_calls.ptx`` and ``device_runtime.ptx``) and added to a module that
declares and calls them, so that both backends run them like any other function.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from vgpu_sim.compiler import current_graph, device_errors
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.fragments import parse_fragment

_DRIVER: Final = frozenset(
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
_RUNTIME: Final = frozenset(
    {
        "cudaGetParameterBuffer",
        "cudaGetParameterBufferV2",
        "cudaLaunchDevice",
        "cudaLaunchDeviceV2",
        "cudaGraphLaunch",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cudaMalloc",
        "cudaFree",
        "cudaStreamCreateWithFlags",
        "cudaStreamDestroy",
        "cudaStreamWaitEvent",
        "cudaEventCreateWithFlags",
        "cudaEventDestroy",
        "cudaEventRecord",
        "cudaEventRecordWithFlags",
        "cudaPeekAtLastError",
        "cudaGetLastError",
        "cudaDeviceGetAttribute",
        "cudaGetErrorName",
        "cudaGetErrorString",
    }
)
_HEAP: Final = frozenset({"malloc", "free"})  # what the device runtime calls

# The version of dynamic parallelism since CUDA 12, and the default stream of each thread.
_PREFIX: Final = "__cudaCDP2"
_SUFFIX: Final = "_ptsz"


_ALIASES: Final = {
    alias: name
    for name in _RUNTIME
    for plain in (name, _PREFIX + name.removeprefix("cuda"))
    for alias in (plain, plain + _SUFFIX)
}
NAMES: Final = _DRIVER | _ALIASES.keys()
# Read at import: a sandboxed worker opens no files.
_SOURCES: Final = {
    name: Path(__file__).with_name(f"{name}.ptx").read_text(encoding="ascii")
    for name in ("system_calls", "device_runtime")
}
_MORE: Final = {"device_runtime": device_errors.ptx_text()}
_OWN: Final = "__tessera_"
# By this variable the client library finds the modules whose kernels launch graphs.
_LAUNCHES_GRAPHS: Final = "tessera.launches_graphs"


def launches_kernels(module: tree.Module) -> bool:
    """True if a module declares functions by which kernels launch kernels and copies."""
    return any(f.name in _ALIASES for f in module.functions)


def add_system_calls(module: tree.Module, *, unused: bool = False) -> tree.Module:
    """Return ``module`` extended by definitions of driver functions such as ``malloc``.

    Only driver functions that the module declares and uses, but does not define, are added. With
    ``unused``, those that it only declares are added, too. Reads of ``%current_graph_exec`` become
    calls.
    """
    in_graph = current_graph.is_read(module)
    if in_graph:
        module = current_graph.replace_reads(module, _hidden_name(f"{_OWN}current_graph"))
    declared = {f.name: f for f in module.functions if f.body is None}
    defined = {f.name for f in module.functions if f.body is not None}
    called_names = NAMES & declared.keys() - defined
    if not called_names and not in_graph:
        return module
    used = [names.find_used(f.body) for f in module.functions if f.body is not None]
    used += [names.in_value(v.initial) for v in module.variables if v.initial is not None]
    if not unused and not in_graph and not any(called_names & used_names for used_names in used):
        return module
    runtime = sorted(called_names & _ALIASES.keys())
    calls_heap = any(_ALIASES[name] in ("cudaMalloc", "cudaFree") for name in runtime)
    driver = (called_names & _DRIVER) | ((_HEAP - defined) if calls_heap else frozenset())
    added: list[tree.Function] = []
    variables: list[tree.Variable] = []
    if driver:
        library = _library("system_calls")
        added += _definitions(library, _DRIVER, {name: name for name in driver}, declared)
        variables += library.variables
    if runtime or in_graph:
        library = _library("device_runtime")
        aliases = {name: _ALIASES[name] for name in runtime}
        added += _definitions(library, _RUNTIME | _HEAP, aliases, declared)
        launches = "cudaGraphLaunch" in aliases.values()
        variables += [v for v in library.variables if launches or v.name != _LAUNCHES_GRAPHS]
    return replace(
        module,
        functions=(*module.functions, *added),
        variables=(*module.variables, *variables),
    )


def _definitions(
    library: tree.Module,
    public: frozenset[str],
    alias_targets: Mapping[str, str],
    declared: Mapping[str, tree.Function],
) -> Iterable[tree.Function]:
    """Yield a library's own functions, and those in ``alias_targets``, which maps names to its
    names.
    """
    known = {f.name: f for f in library.functions if f.body is not None}
    yield from (replace(f, line=0) for name, f in known.items() if name not in public)
    for alias, name in alias_targets.items():
        function = replace(known[name], name=alias)
        if alias in declared:
            yield _as_declared(function, declared[alias])
        else:
            yield replace(function, line=0)


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
def _library(name: str) -> tree.Module:
    """Return the functions, under names that no program can use, and without line numbers."""
    return parse_fragment(_SOURCES[name] + _MORE.get(name, ""), _hidden_name)


def _hidden_name(name: str) -> str:
    return f"tessera.{name.removeprefix(_OWN)}" if name.startswith(_OWN) else name
