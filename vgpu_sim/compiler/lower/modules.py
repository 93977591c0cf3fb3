"""A whole syntax tree to an ISA module.

What breaks a rule of PTX refuses the file. What is not supported yet refuses the kernels that reach
it: by an instruction of theirs, through a ``.func`` that they name, or by naming a variable.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from vgpu_sim.compiler.lower import special, variables
from vgpu_sim.compiler.lower.context import Symbols
from vgpu_sim.compiler.lower.functions import check_function, lower_function
from vgpu_sim.compiler.lower.stack.call_graph import CallGraph
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.lower.symbols.findings import (
    Findings,
    Invalid,
    Refusal,
    Unsupported,
    in_order,
)
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Diagnostic, Function, Module, Refused
from vgpu_sim.isa.verify import MAXIMUM_FUNCTIONS, MAXIMUM_MODULE_WORDS, MAXIMUM_REASONS

_MAX_SOURCES = 16  # parts that a refused kernel or variable is told of


@dataclass(slots=True)
class _Part:
    """A variable or function of the file: what was found about it, and what it names."""

    findings: Findings
    uses: frozenset[str] = frozenset()
    is_kernel: bool = False
    is_variable: bool = False


@dataclass(slots=True)
class _Parts:
    """The file's variables and functions by name; a name's further declarations add to it."""

    whole: Findings
    parts: dict[str, _Part] = field(default_factory=dict)

    def part(self, name: str) -> _Part:
        if name not in self.parts:
            self.parts[name] = _Part(self.whole.part())
        return self.parts[name]

    def unsupported(self) -> list[Diagnostic]:
        """Return all that is not supported, of whatever part, by place."""
        return in_order(one for part in self.parts.values() for one in part.findings.unsupported)

    def reached(self) -> dict[str, list[str]]:
        """Return for each part that reaches something unsupported the parts where that is found.

        Users are told from what they use on, so that a long chain costs its length. A part keeps
        up to ``_MAX_SOURCES`` others: whoever mends those is told of the next.
        """
        users: dict[str, list[str]] = defaultdict(list)
        for name, part in self.parts.items():
            for used in part.uses:
                users[used].append(name)
        found = {name: [name] for name, part in self.parts.items() if part.findings.unsupported}
        pending = list(found)
        while pending:
            name = pending.pop()
            for user in users[name]:
                known = found.setdefault(user, [])
                new = [source for source in found[name] if source not in known]
                if new and len(known) < _MAX_SOURCES:
                    known += new[: _MAX_SOURCES - len(known)]
                    pending.append(user)
        return found


def lower_module(
    module: tree.Module, capability: tuple[int, int], source: str, name: str
) -> tuple[Module, list[Diagnostic]]:
    """Lower all kernels and variables. ``capability`` is what the ``.target`` requires.

    Return the module and all that was found in the file that is not supported yet.

    Raises:
        InvalidPtxError: with everything that was found.
        UnsupportedPtxError: for what concerns all of the file.
    """
    whole = Findings(source, name)
    if module.address_size != 64:
        said = "32-bit addresses" if module.address_size else "a missing .address_size (32 bits)"
        whole.add(Unsupported(said), module.targets[0])
    parts = _Parts(whole)
    graph = CallGraph(module.functions, module.variables, module.aliases)
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
    if any(special.GRID_WORKSPACE_READERS & names.used(body) for body in bodies):
        variables.reserve(segment, special.GRID_WORKSPACE, special.GRID_WORKSPACE_BYTES)
    symbols = Symbols(
        variables=segment.variables,
        refused=segment.refused,
        functions=frozenset(function.name for function in module.functions),
        shared={variable.name: variable for variable in segment.shared},
        local=tuple(segment.local),
        version=module.version,
        capability=capability,
        graph=graph,
        findings=lambda function: parts.part(function).findings,
    )
    functions = _lower_functions(module, symbols, parts)
    whole.raise_any()
    refused = _refused(parts)
    lost = {one.name for one in refused}
    kept = tuple(function for function in functions if function.name not in lost)
    known = [v for v in segment.variables.values() if v.name not in lost]
    lowered = Module(
        functions=kept,
        variables=(*known, *variables.parameter_images(kept, segment.end)),
        required_capability=capability,
        ptx_version=module.version,
        source=source,
        refused=refused,
    )
    return lowered, parts.unsupported()


def _refused(parts: _Parts) -> tuple[Refused, ...]:
    reached = parts.reached()
    own = {name: in_order(part.findings.unsupported) for name, part in parts.parts.items()}
    found = []
    for name, part in parts.parts.items():
        if name in reached and (part.is_kernel or part.is_variable):
            found.append(Refused(name, _bounded([own[s] for s in reached[name]]), part.is_kernel))
    return tuple(found)


def _bounded(found: list[list[Diagnostic]]) -> tuple[Diagnostic, ...]:
    """Keep what a container may hold; the last reason says how many more there are."""
    total = sum(map(len, found))
    reasons = in_order(one for some in found for one in some[:MAXIMUM_REASONS])
    if total <= MAXIMUM_REASONS:
        return tuple(reasons)
    kept, last = reasons[: MAXIMUM_REASONS - 1], reasons[MAXIMUM_REASONS - 1]
    more = f"and {total - len(kept)} more reasons"
    return (*kept, Diagnostic(last.line, last.column, more))


def _lower_functions(module: tree.Module, symbols: Symbols, parts: _Parts) -> list[Function]:
    functions: list[Function] = []
    defined: set[str] = set()
    words = 0
    for function in module.functions:
        if function.body is None:
            continue  # a declaration makes nothing; a call of it is refused where it stands
        part = parts.part(function.name)
        if function.name in defined or part.is_variable:
            parts.whole.add(Invalid(f"{function.name!r} is defined twice"), function)
        defined.add(function.name)
        part.is_kernel |= function.is_entry
        local = names.declared(function.body) | {p.name for p in function.parameters}
        part.uses |= names.used(function.body) - local
        if function.is_entry:
            lowered = lower_function(function, function.body, symbols, part.findings)
            functions.append(lowered)
            words += len(lowered.code)
        too_many = _too_many(words, len(functions))
        if too_many:
            parts.whole.add(Unsupported(f"a module of more than {too_many}"), function)
            return functions
    for function in reversed(module.functions):  # callers first: they lower what they call
        if function.body is not None and not function.is_entry:
            check_function(function, symbols)
    return functions


def _too_many(words: int, functions: int) -> str:
    """Return which bound of a module is passed: what many kernels call is in each of them."""
    if words > MAXIMUM_MODULE_WORDS:
        return f"{MAXIMUM_MODULE_WORDS} instructions"
    if functions > MAXIMUM_FUNCTIONS:
        return f"{MAXIMUM_FUNCTIONS} kernels"
    return ""


def _no_alias(module: tree.Module, alias: tree.Alias) -> Refusal:
    """Return why a name can be no alias."""
    if any(function.name == alias.aliasee for function in module.functions):
        return Unsupported(f"an alias of {alias.aliasee!r}, which is no .func defined here,")
    return Invalid(f"{alias.aliasee!r} is not a function")
