"""The names in a function's body, which determine what it may use from its module."""

from collections.abc import Iterator
from dataclasses import fields

from vgpu_sim.compiler.ptx import tree

_NESTED = (
    tree.Offset,
    tree.Element,
    tree.Memory,
    tree.Vector,
    tree.Pair,
    tree.Not,
    tree.Negated,
    tree.Arguments,
    tree.GenericAddress,
    tree.MaskedAddress,
    tree.ValueList,
    tree.Field,
)
_PARTS: dict[type, tuple[str, ...]] = {
    kind: tuple(part.name for part in fields(kind)) for kind in _NESTED
}


def find_used(body: tree.Block) -> frozenset[str]:
    """Return every name that a body uses, whatever the name denotes.

    Names are used in operands, in lists of targets and in initial values.
    """
    return frozenset(_yield_used(body))


def find_declared(body: tree.Block) -> frozenset[str]:
    """Return the names that any scope of a body declares; for ``name<n>``, the prefix ``name``."""
    names: set[str] = set()
    for statement in _statements(body):
        if isinstance(statement, tree.Registers):
            names.update(register.name for register in statement.names)
        elif isinstance(statement, tree.Variable | tree.Label):
            names.add(statement.name)
    return frozenset(names)


def instructions(body: tree.Block) -> Iterator[tree.Instruction]:
    """Yield the instructions of a body, in order."""
    for statement in _statements(body):
        if isinstance(statement, tree.Instruction):
            yield statement


def in_operands(operands: tuple[tree.Operand, ...]) -> frozenset[str]:
    """Return the names that occur in the operands of an instruction."""
    return frozenset(name.text for name in names_in(operands))


def in_value(value: tree.InitialValue) -> frozenset[str]:
    """Return the names whose addresses an initial value contains."""
    return frozenset(name.text for name in names_in(value))


def variables(body: tree.Block) -> Iterator[tree.Variable]:
    """Yield the variables that a body declares, in order."""
    for statement in _statements(body):
        if isinstance(statement, tree.Variable):
            yield statement


def _yield_used(body: tree.Block) -> Iterator[str]:
    for statement in _statements(body):
        if isinstance(statement, tree.Instruction):
            yield from (name.text for name in names_in(statement.operands))
        elif isinstance(statement, tree.BranchTargets):
            yield from statement.names
        elif isinstance(statement, tree.Variable) and statement.initial is not None:
            yield from (name.text for name in names_in(statement.initial))


def _statements(body: tree.Block) -> Iterator[tree.Statement]:
    pending: list[tree.Statement] = list(reversed(body.statements))
    while pending:
        statement = pending.pop()
        if isinstance(statement, tree.Block):
            pending += reversed(statement.statements)
        else:
            yield statement


def names_in(operand: object) -> Iterator[tree.Name]:
    """Yield the names that occur in an operand, a tuple of operands or an initial value."""
    pending: list[object] = [operand]
    while pending:
        node = pending.pop()
        if isinstance(node, tree.Name):
            yield node
        elif isinstance(node, tuple):
            pending += [part for part in node if type(part) is not tree.Integer]
        else:
            pending += (getattr(node, part) for part in _PARTS.get(type(node), ()))
