"""Lowers a whole syntax tree to an ISA module.

If the file violates PTX's rules, it is refused. If it uses an unsupported feature, only the
kernels that use that are refused: in an instruction of their own, through a ``.func`` that they
name, or by naming a variable.
"""

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import field

from vgpu_sim.compiler.lower import special, variables
from vgpu_sim.compiler.lower.context import Symbols
from vgpu_sim.compiler.lower.functions import check_function, lower_function
from vgpu_sim.compiler.lower.stack.call_graph import CallGraph, FileFacts
from vgpu_sim.compiler.lower.symbols import descriptors, managed_variables, names, references
from vgpu_sim.compiler.lower.symbols.findings import (
    Findings,
    Invalid,
    Refusal,
    Unsupported,
    in_order,
)
from vgpu_sim.compiler.lower.symbols.parameters import OPAQUE
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Diagnostic, Function, Module, Refused
from vgpu_sim.isa.verify import MAXIMUM_FUNCTIONS, MAXIMUM_MODULE_WORDS, MAXIMUM_REASONS
from vgpu_sim.records import dataclass

_MAX_SOURCES = 16  # most parts that a refused kernel or variable lists


@dataclass(slots=True)
class _Part:
    """A variable or function of the file: its findings, and the names that it uses."""

    findings: Findings
    uses: frozenset[str] = frozenset()
    is_kernel: bool = False
    is_variable: bool = False


@dataclass(slots=True)
class _Parts:
    """The file's variables and functions by name.

    Further declarations of a name are added to the first one.
    """

    whole: Findings
    parts: dict[str, _Part] = field(default_factory=dict)

    def part(self, name: str) -> _Part:
        if name not in self.parts:
            self.parts[name] = _Part(self.whole.for_part())
        return self.parts[name]

    def list_unsupported(self) -> list[Diagnostic]:
        """Return all findings about unsupported features, of all parts, ordered by place."""
        return in_order(
            finding for part in self.parts.values() for finding in part.findings.unsupported
        )

    def find_reached(self, names_: Iterable[str]) -> set[str]:
        """Return the parts with these names, and all that they use, directly or indirectly."""
        reached: set[str] = set()
        pending = list(names_)
        while pending:
            name = pending.pop()
            if name in self.parts and name not in reached:
                reached.add(name)
                pending += self.parts[name].uses
        return reached

    def trace_unsupported(self) -> dict[str, list[str]]:
        """Map each part that uses something unsupported to the parts that contain it.

        The search starts at the unsupported parts, so that a long chain costs only its length. At
        most ``_MAX_SOURCES`` parts are kept for each part: the next ones are reported when these
        are fixed.
        """
        users: dict[str, list[str]] = defaultdict(list)
        for name, part in self.parts.items():
            for used in part.uses:
                users[used].append(name)
        origins = {name: [name] for name, part in self.parts.items() if part.findings.unsupported}
        pending = list(origins)
        while pending:
            name = pending.pop()
            for user in users[name]:
                known = origins.setdefault(user, [])
                new = [source for source in origins[name] if source not in known]
                if new and len(known) < _MAX_SOURCES:
                    known += new[: _MAX_SOURCES - len(known)]
                    pending.append(user)
        return origins


def lower_module(
    module: tree.Module,
    capability: tuple[int, int],
    source: str,
    name: str,
    file: FileFacts | None = None,
) -> tuple[Module, list[Diagnostic]]:
    """Lower all kernels and variables. ``capability`` is the one that ``.target`` requires.

    ``file`` has facts about the whole file if the module is only a part of it.

    Return the module and all findings about unsupported features.

    Raises:
        InvalidPtxError: with all violations of PTX's rules.
        UnsupportedPtxError: for unsupported features that concern the whole file.
    """
    whole = Findings(source, name)
    if module.address_size != 64:
        feature = (
            "a 32-bit .address_size" if module.address_size else "a missing .address_size (32 bits)"
        )
        whole.add(Unsupported(f"{feature}"), module.targets[0])
    parts = _Parts(whole)
    graph = CallGraph(module.functions, module.variables, module.aliases, file)
    for alias in module.aliases:
        if alias.aliasee not in graph.functions:
            parts.part(alias.name).findings.add(_no_alias(module, alias), alias)
        parts.part(alias.name).uses |= {alias.aliasee}
    segment = variables.lay_out(
        module, graph.addresses(), lambda variable: parts.part(variable).findings
    )
    for declared in module.variables:
        part = parts.part(declared.name)
        part.is_variable = True
        if declared.initial is not None:
            part.uses |= names.in_value(declared.initial)
    bodies = [function.body for function in module.functions if function.body is not None]
    if any(special.GRID_WORKSPACE_READERS & names.find_used(body) for body in bodies):
        variables.reserve(segment, special.GRID_WORKSPACE, special.GRID_WORKSPACE_BYTES)
    for kernel in descriptors.find_launched(module):
        descriptor = descriptors.descriptor_name(kernel)
        variables.reserve(segment, descriptor, descriptors.DESCRIPTOR_BYTES)
    symbols = Symbols(
        variables=segment.variables,
        refused=segment.refused,
        functions=frozenset(function.name for function in module.functions),
        handles={v.name: v.type for v in module.variables if v.type in OPAQUE},
        shared={variable.name: variable for variable in segment.shared},
        local=tuple(segment.local),
        version=module.version,
        capability=capability,
        graph=graph,
        findings=lambda function: parts.part(function).findings,
    )
    functions = _lower_functions(module, symbols, parts)
    whole.raise_any()
    refused = _list_refused(parts)
    lost = {refusal.name for refusal in refused}
    kept_functions = tuple(function for function in functions if function.name not in lost)
    lost |= {managed_variables.pointer_name(name) for name in lost} | {
        marker for name in lost for marker in references.marker_names(name)
    }
    _mark_read_references(module, parts, symbols, segment, lost)
    known = [v for v in segment.variables.values() if v.name not in lost]
    lowered = Module(
        functions=kept_functions,
        variables=(*known, *variables.parameter_images(kept_functions, segment.end)),
        required_capability=capability,
        ptx_version=module.version,
        source=source,
        refused=refused,
    )
    return lowered, parts.list_unsupported()


def _mark_read_references(
    module: tree.Module,
    parts: _Parts,
    symbols: Symbols,
    segment: variables.Segment,
    lost: Container[str],
) -> None:
    """Add a variable for each reference that a kernel may read, also in functions it may call."""
    marked = {v.name for v in module.variables if references.is_reference(v)}
    marked = {name for name in marked if name not in lost}
    for function in module.functions if marked else ():
        if not function.is_entry or function.body is None or function.name in lost:
            continue
        called = symbols.graph.reachable_functions(function.body)
        reached = parts.find_reached((function.name, *(callee.name for callee in called)))
        for name in sorted(reached & marked):
            reads = references.reads_name(function.name, name)
            variables.reserve(segment, reads, references.MARKER_BYTES)


def _list_refused(parts: _Parts) -> tuple[Refused, ...]:
    reached = parts.trace_unsupported()
    own = {name: in_order(part.findings.unsupported) for name, part in parts.parts.items()}
    refused_parts = []
    for name, part in parts.parts.items():
        if name in reached and (part.is_kernel or part.is_variable):
            refused_parts.append(
                Refused(name, _bound([own[s] for s in reached[name]]), part.is_kernel)
            )
    return tuple(refused_parts)


def _bound(diagnostics_by_part: list[list[Diagnostic]]) -> tuple[Diagnostic, ...]:
    """Return at most as many reasons as a container may hold.

    If there are more, the last one states how many are missing.
    """
    total = sum(map(len, diagnostics_by_part))
    reasons = in_order(
        diagnostic
        for diagnostics in diagnostics_by_part
        for diagnostic in diagnostics[:MAXIMUM_REASONS]
    )
    if total <= MAXIMUM_REASONS:
        return tuple(reasons)
    kept_reasons, last = reasons[: MAXIMUM_REASONS - 1], reasons[MAXIMUM_REASONS - 1]
    summary = f"and {total - len(kept_reasons)} more reasons"
    return (*kept_reasons, Diagnostic(last.line, last.column, summary))


def _lower_functions(module: tree.Module, symbols: Symbols, parts: _Parts) -> list[Function]:
    functions: list[Function] = []
    defined: set[str] = set()
    words = 0
    for function in module.functions:
        if function.body is None:
            continue  # a declaration emits nothing; a call of it is refused at the call
        part = parts.part(function.name)
        if function.name in defined or part.is_variable:
            parts.whole.add(Invalid(f"{function.name!r} is defined twice"), function)
        defined.add(function.name)
        part.is_kernel |= function.is_entry
        local = names.find_declared(function.body) | {p.name for p in function.parameters}
        part.uses |= names.find_used(function.body) - local
        if function.is_entry:
            lowered = lower_function(function, function.body, symbols, part.findings)
            functions.append(lowered)
            words += len(lowered.code)
        too_many = _too_many(words, len(functions))
        if too_many:
            refusal = Unsupported(f"a module of more than {too_many}")
            parts.whole.add(refusal, function)
            return functions
    for function in reversed(module.functions):  # callers first: they lower their callees
        if function.body is not None and not function.is_entry:
            check_function(function, symbols)
    return functions


def _too_many(words: int, functions: int) -> str:
    """Return which bound of a module is exceeded.

    A function is copied into each kernel that calls it.
    """
    if words > MAXIMUM_MODULE_WORDS:
        return f"{MAXIMUM_MODULE_WORDS} instructions"
    if functions > MAXIMUM_FUNCTIONS:
        return f"{MAXIMUM_FUNCTIONS} kernels"
    return ""


def _no_alias(module: tree.Module, alias: tree.Alias) -> Refusal:
    """Return why a name cannot be an alias."""
    if any(function.name == alias.aliasee for function in module.functions):
        return Unsupported(
            f"an alias of {alias.aliasee!r}, which is not a .func defined in this module,"
        )
    return Invalid(f"{alias.aliasee!r} is not a function")
