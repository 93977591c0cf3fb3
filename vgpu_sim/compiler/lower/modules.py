"""A whole syntax tree to an ISA module."""

from vgpu_sim.compiler.lower import variables
from vgpu_sim.compiler.lower.context import Symbols
from vgpu_sim.compiler.lower.findings import Findings, Invalid, Unsupported
from vgpu_sim.compiler.lower.functions import lower_function
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Function, Module


def lower_module(
    module: tree.Module, capability: tuple[int, int], source: str, name: str
) -> Module:
    """Lower all kernels and variables. ``capability`` is what the ``.target`` requires.

    Raises:
        InvalidPtxError, UnsupportedPtxError: with everything that was found.
    """
    findings = Findings(source, name)
    if module.address_size != 64:
        said = "32-bit addresses" if module.address_size else "a missing .address_size (32 bits)"
        findings.add(Unsupported(said), module.targets[0])
    for alias in module.aliases:
        findings.add(Unsupported("directive .alias"), alias)
    segment = variables.lay_out(module, findings)
    symbols = Symbols(
        variables=segment.variables,
        refused=segment.refused,
        functions=frozenset(function.name for function in module.functions),
        shared=tuple(segment.shared),
    )
    functions = _lower_functions(module, symbols, findings)
    findings.raise_any()
    return Module(
        functions=tuple(functions),
        variables=tuple(segment.variables.values()),
        required_capability=capability,
        ptx_version=module.version,
        source=source,
    )


def _lower_functions(module: tree.Module, symbols: Symbols, findings: Findings) -> list[Function]:
    functions: list[Function] = []
    defined: set[str] = set()
    for function in module.functions:
        if function.body is None:
            continue  # a declaration makes nothing; a call of it is refused where it stands
        if function.name in defined or function.name in symbols.variables:
            findings.add(Invalid(f"{function.name!r} is defined twice"), function)
        defined.add(function.name)
        if function.is_entry:
            body = function.body
            functions.append(lower_function(function, body, symbols, findings))
        else:
            findings.add(Unsupported(f".func {function.name!r}"), function)
    return functions
