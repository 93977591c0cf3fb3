"""The compiler as an ordered list of named stages.

A stage takes and returns a ``Compilation``; ``observe`` is called with each one, for dumps.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from vgpu_sim.compiler import allocation, expansion, legality, system_calls, target
from vgpu_sim.compiler.errors import (
    Diagnostic,
    InvalidPtxError,
    PtxError,
    PtxSyntaxError,
    UnsupportedPtxError,
)
from vgpu_sim.compiler.lower.modules import lower_module
from vgpu_sim.compiler.ptx import decode, parse, tree
from vgpu_sim.compiler.source_lines import SourceLines
from vgpu_sim.isa import Function, Module, PhysicalAllocation
from vgpu_sim.records import dataclass

_MAX_SHOWN_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Compilation:
    """The state of a file's compilation between two stages.

    ``unsupported`` are all findings about unsupported features.
    """

    source: str
    capability: tuple[int, int]
    name: str = "<ptx>"
    syntax: tree.Module | None = None
    module: Module | None = None
    unsupported: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """A named step of the compiler.

    ``needs_module`` states that the step needs the lowered module, not only the syntax tree.
    """

    name: str
    run: Callable[[Compilation], Compilation]
    needs_module: bool = False


Observer = Callable[[str, Compilation], None]


def _parse(compilation: Compilation) -> Compilation:
    try:
        return replace(compilation, syntax=parse(compilation.source))
    except PtxSyntaxError as error:
        raise add_lines(error, compilation.source, compilation.name) from error


def add_lines(error: PtxSyntaxError, source: str, name: str) -> PtxSyntaxError:
    """Return the error with the file's name and the text of its lines."""
    lines = SourceLines(source)
    other_diagnostics = tuple(
        replace(diagnostic, text=_line(lines, diagnostic.line)) for diagnostic in error.others
    )
    text = _line(lines, error.line)
    return PtxSyntaxError(error.line, error.column, error.message, name, text, other_diagnostics)


def _line(lines: SourceLines, line: int) -> str:
    """Return a line of the source, safe for a terminal; empty for line 0, the whole file."""
    text = " ".join(lines.text(line, _MAX_SHOWN_CHARACTERS).split())
    return "".join(character if character.isprintable() else "?" for character in text)


def _check_target(compilation: Compilation) -> Compilation:
    target.check(_syntax(compilation), compilation.capability, compilation.name)
    return compilation


def _check_instructions(compilation: Compilation) -> Compilation:
    legality.check(_syntax(compilation), compilation.source, compilation.name)
    return compilation


def _lower(compilation: Compilation) -> Compilation:
    syntax = _syntax(compilation)
    required = target.required_capability(syntax, compilation.name)
    whole = expansion.expand_vectors(system_calls.add_system_calls(syntax))
    module, unsupported = lower_module(whole, required, compilation.source, compilation.name)
    return replace(compilation, module=module, unsupported=tuple(unsupported))


def _check_operands(compilation: Compilation) -> Compilation:
    legality.check_operands(_syntax(compilation), compilation.source, compilation.name)
    return compilation


def _allocate(compilation: Compilation) -> Compilation:
    module = _module(compilation)
    limits = {
        function.name: max(allocation.LOWEST_LIMIT, directive.arguments[0])
        for function in _syntax(compilation).functions
        for directive in function.directives
        if directive.name == ".maxnreg"
    }

    def allocate(function: Function) -> PhysicalAllocation:
        physical = allocation.allocate(function)
        register_limit = limits.get(function.name, physical.peak_registers)
        return replace(physical, peak_registers=min(physical.peak_registers, register_limit))

    functions = tuple(
        replace(function, physical=allocate(function)) for function in module.functions
    )
    return replace(compilation, module=replace(module, functions=functions))


STAGES: tuple[Stage, ...] = (
    Stage("parse", _parse),
    Stage("target", _check_target),
    Stage("legality", _check_instructions),
    Stage("lower", _lower),
    Stage(
        "operands", _check_operands
    ),  # last, since lowering's messages about operands are more precise
    Stage("allocate", _allocate, needs_module=True),
)
"""The stages from PTX text to a module, in order."""


def run(
    compilation: Compilation, stages: Sequence[Stage] = STAGES, observe: Observer | None = None
) -> Compilation:
    """Run ``stages`` on a file; after each stage, call ``observe`` with its name and result.

    Raises:
        PtxError: a stage reports findings.
    """
    for place, stage in enumerate(stages):
        try:
            compilation = stage.run(compilation)
        except InvalidPtxError as error:
            if compilation.syntax is None or isinstance(error, PtxSyntaxError):
                raise  # without a syntax tree there is nothing more to check
            raise _with_later(error, compilation, stages[place + 1 :]) from error
        if observe is not None:
            observe(stage.name, compilation)
    return compilation


def _with_later(
    error: InvalidPtxError, compilation: Compilation, stages: Sequence[Stage]
) -> InvalidPtxError:
    """Add the findings of later stages about other lines of the same syntax tree to an error."""
    diagnostics = list(error.diagnostics)
    for stage in stages:
        if stage.needs_module:
            break
        try:
            stage.run(compilation)
        except InvalidPtxError as another:
            known = {diagnostic.line for diagnostic in diagnostics}
            diagnostics += [
                diagnostic for diagnostic in another.diagnostics if diagnostic.line not in known
            ]
        except PtxError:
            continue
    return InvalidPtxError(
        sorted(diagnostics, key=lambda diagnostic: (diagnostic.line, diagnostic.column)), error.name
    )


def _syntax(compilation: Compilation) -> tree.Module:
    if compilation.syntax is None:
        raise ValueError("the stage needs a syntax tree: run 'parse' first")
    return compilation.syntax


def _module(compilation: Compilation) -> Module:
    if compilation.module is None:
        raise ValueError("the stage needs a module: run 'lower' first")
    return compilation.module


def capability_of(source: str | bytes, name: str = "<ptx>") -> tuple[int, int]:
    """Return the compute capability that a file's ``.target`` requires: the lowest on which the
    file runs.

    Raises:
        PtxSyntaxError: the text is not PTX.
        UnsupportedPtxError: a target option is not supported yet.
    """
    compilation = run(Compilation(decode(source), (0, 0), name), STAGES[:1])
    return target.required_capability(_syntax(compilation), name)


def compile_ptx(
    source: str | bytes,
    *,
    capability: tuple[int, int],
    name: str = "<ptx>",
    partial: bool = False,
) -> Module:
    """Compile PTX to a module for a device of compute ``capability``.

    Diagnostics call the file ``name``. With ``partial``, kernels and variables that are not
    supported yet are in ``Module.refused``, as when a device loads the file.

    Raises:
        PtxSyntaxError, InvalidPtxError: the text is not PTX.
        UnsupportedPtxError: the text uses something that is not supported yet; nothing is dropped.
            With ``partial``, raised only for features that concern the whole file.
        TargetError: the file's ``.target`` is above ``capability``.
    """
    compilation = run(Compilation(decode(source), capability, name))
    if compilation.unsupported and not partial:
        raise UnsupportedPtxError(compilation.unsupported, name)
    return _module(compilation)
