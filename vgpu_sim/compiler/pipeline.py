"""The compiler as an ordered list of named stages, each from one value to the next.

A stage takes and returns a ``Compilation``; ``observe`` sees every one in between, for dumps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vgpu_sim.compiler import allocation, expansion, legality, system_calls, target
from vgpu_sim.compiler.errors import Diagnostic, PtxSyntaxError, UnsupportedPtxError
from vgpu_sim.compiler.lower.modules import lower_module
from vgpu_sim.compiler.ptx import decode, parse, tree
from vgpu_sim.compiler.source_lines import SourceLines
from vgpu_sim.isa import Module

_MAX_SHOWN_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Compilation:
    """What is known of a file between two stages.

    ``unsupported`` is all that was found in it that is not supported yet.
    """

    source: str
    capability: tuple[int, int]
    name: str = "<ptx>"
    syntax: tree.Module | None = None
    module: Module | None = None
    unsupported: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """A named step."""

    name: str
    run: Callable[[Compilation], Compilation]


Observer = Callable[[str, Compilation], None]


def _parse(compilation: Compilation) -> Compilation:
    try:
        return replace(compilation, syntax=parse(compilation.source))
    except PtxSyntaxError as error:
        text = _line(compilation.source, error.line)
        raise PtxSyntaxError(
            error.line, error.column, error.message, compilation.name, text
        ) from error


def _line(source: str, line: int) -> str:
    """Return a line of the source fit for a terminal; nothing for line 0, the whole file."""
    shown = SourceLines(source).text(line, _MAX_SHOWN_CHARACTERS)
    text = " ".join(shown.split())
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
    whole = expansion.expanded(system_calls.completed(syntax))
    module, unsupported = lower_module(whole, required, compilation.source, compilation.name)
    return replace(compilation, module=module, unsupported=tuple(unsupported))


def _check_operands(compilation: Compilation) -> Compilation:
    legality.check_operands(_syntax(compilation), compilation.source, compilation.name)
    return compilation


def _allocate(compilation: Compilation) -> Compilation:
    module = _module(compilation)
    functions = tuple(
        replace(function, physical=allocation.allocate(function)) for function in module.functions
    )
    return replace(compilation, module=replace(module, functions=functions))


STAGES: tuple[Stage, ...] = (
    Stage("parse", _parse),
    Stage("target", _check_target),
    Stage("legality", _check_instructions),
    Stage("lower", _lower),
    Stage("operands", _check_operands),  # last: what lowering says of an operand is more exact
    Stage("allocate", _allocate),
)
"""PTX text to a module, in order."""


def run(
    compilation: Compilation, stages: Sequence[Stage] = STAGES, observe: Observer | None = None
) -> Compilation:
    """Run ``stages``.

    Raises:
        PtxError: from the stage that finds something.
    """
    for stage in stages:
        compilation = stage.run(compilation)
        if observe is not None:
            observe(stage.name, compilation)
    return compilation


def _syntax(compilation: Compilation) -> tree.Module:
    if compilation.syntax is None:
        raise ValueError("the stage needs a syntax tree: run 'parse' first")
    return compilation.syntax


def _module(compilation: Compilation) -> Module:
    if compilation.module is None:
        raise ValueError("the stage needs a module: run 'lower' first")
    return compilation.module


def capability_of(source: str | bytes, name: str = "<ptx>") -> tuple[int, int]:
    """Return the compute capability that a file's ``.target`` names: the least that runs it.

    Raises:
        PtxSyntaxError: the text is not PTX.
        UnsupportedPtxError: for target options that are not supported yet.
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

    ``name`` stands for the file in diagnostics. With ``partial`` a kernel or variable that is not
    supported yet is in ``Module.refused``, as when a device loads the file.

    Raises:
        PtxSyntaxError, InvalidPtxError: the text is not PTX.
        UnsupportedPtxError: it holds something that is not supported yet; nothing is dropped. With
            ``partial`` only where that concerns all of the file.
        TargetError: its ``.target`` is above ``capability``.
    """
    compilation = run(Compilation(decode(source), capability, name))
    if compilation.unsupported and not partial:
        raise UnsupportedPtxError(compilation.unsupported, name)
    return _module(compilation)
