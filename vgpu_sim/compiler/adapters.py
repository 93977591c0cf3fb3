"""Functions between a caller and a function that has other results than the caller's file declares.

The adapter has the declared results and calls the function. A result that the function does not
have is 0; one that the file does not declare is dropped.
"""

from dataclasses import replace

from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.ptx import tree


def adapt(declared: tree.Function, function: tree.Function, name: str) -> tree.Function:
    """Return an adapter called ``name``, declared as ``declared``, that calls ``function``."""
    line, column = declared.line, declared.column
    parameters = tuple(
        replace(variable, name=f"argument.{i}") for i, variable in enumerate(declared.parameters)
    )
    returns = tuple(
        replace(variable, name=f"result.{i}") for i, variable in enumerate(declared.returns)
    )
    dropped = tuple(
        replace(variable, name=f"dropped.{i}") for i, variable in enumerate(function.returns)
    )

    def make(opcode: str, modifiers: tuple[str, ...], *operands: tree.Operand) -> tree.Instruction:
        return tree.Instruction(line, column, opcode, modifiers, operands, None, 0, 0)

    def names(variables: tuple[tree.Variable, ...]) -> tree.Arguments:
        return tree.Arguments(
            tuple(tree.Name(variable.name, line, column) for variable in variables)
        )

    zeros = (
        make(
            "st",
            (".param", f".b{DATA_TYPES[variable.type[1:]].bits}"),
            tree.Memory((tree.Name(variable.name, line, column),)),
            tree.Integer(0),
        )
        for variable in returns
        if variable.space is tree.Space.PARAM
        and not variable.dimensions
        and variable.type[1:] in DATA_TYPES
    )
    results = (names(dropped),) if dropped else ()
    arguments = (names(parameters),) if parameters else ()
    call = make("call", (".uni",), *results, tree.Name(function.name, line, column), *arguments)
    statements: list[tree.Statement] = [*dropped, *zeros, call, make("ret", ())]
    body = tree.Block(line, column, tuple(statements))
    return replace(
        declared,
        name=name,
        linkage=tree.Linkage.NONE,
        parameters=parameters,
        returns=returns,
        body=body,
    )
