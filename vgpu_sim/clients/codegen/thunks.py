"""Renders those implementations of a library above the driver that only call the driver, or another
implementation.
"""

import re
from collections.abc import Iterator

from vgpu_sim.clients.codegen.library import Function, Library, Variants
from vgpu_sim.clients.codegen.render import BANNER

_CAST = re.compile(r"\((?P<type>[^()]+)\)(?P<value>\w+)")


def _arguments(function: Function) -> Iterator[tuple[str, str]]:
    """Yield type and expression of each argument that the driver function receives.

    Raises:
        ValueError: an argument in ``args`` is neither a parameter nor has a type.
    """
    types = {parameter.name: parameter.type for parameter in function.parameters}
    argument_list = function.args or ", ".join(types)
    for part in filter(None, (word.strip() for word in argument_list.split(","))):
        cast = _CAST.fullmatch(part)
        if cast:
            yield cast["type"], part
        elif part in types:
            yield types[part], part
        else:
            raise ValueError(f"functions.toml: {function.symbol}: no type for argument {part!r}")


def _signature(library: Library, function: Function) -> str:
    parts = [f"{parameter.type} {parameter.name}" for parameter in function.parameters]
    returns = function.returns or library.status
    return f"{returns} tsr_{function.symbol}({', '.join(parts) or 'void'})"


def _thunk(library: Library, function: Function) -> Iterator[str]:
    """Yield the lines of a function that calls the driver.

    Raises:
        ValueError: the driver's function has another number of parameters.
    """
    arguments = list(_arguments(function))
    driver = library.driver[function.driver]
    if driver.kind and len(driver.parameters) != len(arguments):
        raise ValueError(
            f"functions.toml: {function.symbol}: {driver.symbol} has {len(driver.parameters)}"
            " parameters"
        )
    values = ", ".join(value for _, value in arguments)
    yield f"{_signature(library, function)} {{ return {function.driver}({values}); }}"


def _declarations(functions: list[Function]) -> Iterator[str]:
    """Yield declarations of the driver functions, with the types that the callers use.

    Raises:
        ValueError: two callers use different types.
    """
    declared: dict[str, tuple[str, str]] = {}
    for function in functions:
        types = ", ".join(kind for kind, _ in _arguments(function)) or "void"
        first_use = declared.setdefault(function.driver, (types, function.symbol))
        if first_use[0] != types:
            raise ValueError(
                f"functions.toml: {function.symbol} and {first_use[1]} pass different types to"
                f" {function.driver}"
            )
    for name, (types, _) in sorted(declared.items()):
        yield f"extern int {name}({types});"


def _variant(library: Library, function: Function, variants: Variants) -> str:
    """Return a function that calls the plain one with the per-thread default stream."""
    values = ", ".join(
        f"{parameter.name} ? {parameter.name} : {variants.per_thread}"
        if parameter.type == variants.stream
        else parameter.name
        for parameter in function.parameters
    )
    call = f"tsr_{function.base}({values})"
    return f"{_signature(library, function)} {{ return {call}; }}"


def render_thunks(library: Library) -> str:
    """Return ``thunks.c``, which defines the generated implementations."""
    calling = [function for function in library.functions if function.kind and function.driver]
    lines = [BANNER, '#include "api.h"', "", *_declarations(calling), ""]
    for function in calling:
        lines += _thunk(library, function)
    if library.variants:
        lines += [
            _variant(library, function, library.variants)
            for function in library.functions
            if function.base
        ]
    return "\n".join([*lines, ""])
