"""Checks instructions against their forms' operands and the file's ``.target`` and ``.version``.

A driver refuses a file that violates either. An instruction's operands and requirements are in
its row in ``ptx.grammar.tables``. The file is checked against its first target: further ones are
options.
"""

from collections.abc import Iterator

from vgpu_sim.compiler import target
from vgpu_sim.compiler.legality import operands
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid
from vgpu_sim.compiler.ptx import grammar, tree
from vgpu_sim.compiler.ptx.grammar import requirements

_Spelling = tuple[str, tuple[str, ...]]


def check(module: tree.Module, source: str, name: str = "<ptx>") -> None:
    """Check every instruction of a module against its target and version.

    Raises:
        InvalidPtxError: with each instruction and special register that needs a later target or
            version.
    """
    findings = Findings(source, name)
    own = target.first(module, name)
    known: dict[_Spelling, str] = {}
    for function in module.functions:
        if function.body is None:
            continue
        for instruction in names.instructions(function.body):
            spelling = (instruction.opcode, instruction.modifiers)
            if spelling not in known:
                known[spelling] = _error(spelling, own, module.version)
            if known[spelling]:
                findings.add(Invalid(known[spelling]), instruction)
            for register in _specials(instruction):
                need = requirements.need_of_special(register.text)
                missing = "" if need is None else need.error(own, module.version)
                if missing:
                    findings.add(Invalid(f"{register.text} {missing}", register), instruction)
    findings.raise_any()


def check_operands(module: tree.Module, source: str, name: str = "<ptx>") -> None:
    """Check the operands of every instruction against the instruction's PTX form. Forms that
    Tessera does not support yet are checked too.

    Raises:
        InvalidPtxError: with each operand that does not match.
    """
    findings = Findings(source, name)
    operands.check(module, findings)
    findings.raise_any()


def _error(spelling: _Spelling, own: requirements.Target, version: tuple[int, int]) -> str:
    opcode, modifiers = spelling
    for need in requirements.needs(opcode, tuple(modifier[1:] for modifier in modifiers)):
        missing = need.error(own, version)
        if missing:
            return f"{opcode}{''.join(modifiers)} {missing}"
    return ""


def _specials(instruction: tree.Instruction) -> Iterator[tree.Name]:
    for operand in names.names_in(instruction.operands):
        if grammar.is_special(operand.text):
            yield operand
