"""Reads of ``%current_graph_exec``: calls of the device runtime, which has the graph of a grid."""

from dataclasses import replace
from functools import cache
from typing import Final

from vgpu_sim.compiler.lower.special import CURRENT_GRAPH
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.fragments import HEADER, parse_fragment

_TYPES: Final = ((".b64",), (".u64",), (".s64",))
_CALL: Final = f"{HEADER}.func f() {{ .reg .b64 %d; call (%d), __tessera_current_graph, (); }}\n"


def is_read(module: tree.Module) -> bool:
    """Return whether an instruction of a module reads the register."""
    return any(
        _reads(instruction)
        for function in module.functions
        if function.body is not None
        for instruction in names.instructions(function.body)
    )


def replace_reads(module: tree.Module, function: str) -> tree.Module:
    """Return a module that calls ``function``, which returns 64 bits, instead of such reads."""
    functions = (
        f if f.body is None else replace(f, body=_in_block(f.body, function))
        for f in module.functions
    )
    return replace(module, functions=tuple(functions))


def _reads(instruction: tree.Instruction) -> bool:
    if (
        instruction.opcode != "mov"
        or len(instruction.operands) != 2
        or instruction.modifiers not in _TYPES
    ):
        return False
    to, source = instruction.operands
    if not isinstance(to, tree.Name) or not isinstance(source, tree.Name):
        return False
    return source.text == CURRENT_GRAPH


def _in_block(block: tree.Block, function: str) -> tree.Block:
    changed = tuple(_in_statement(statement, function) for statement in block.statements)
    return replace(block, statements=changed)


def _in_statement(statement: tree.Statement, function: str) -> tree.Statement:
    if isinstance(statement, tree.Block):
        return _in_block(statement, function)
    if not isinstance(statement, tree.Instruction) or not _reads(statement):
        return statement
    call = _call()
    results, called, arguments = call.operands
    assert isinstance(results, tree.Arguments)
    assert isinstance(called, tree.Name)
    results = replace(results, elements=(statement.operands[0],))
    operands = (results, replace(called, text=function), arguments)
    return replace(statement, opcode="call", modifiers=call.modifiers, operands=operands)


@cache
def _call() -> tree.Instruction:
    body = parse_fragment(_CALL).functions[0].body
    assert body is not None
    (call,) = names.instructions(body)
    return call
