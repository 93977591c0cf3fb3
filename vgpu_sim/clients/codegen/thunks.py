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
    wanted = function.args or ", ".join(types)
    for part in filter(None, (one.strip() for one in wanted.split(","))):
        cast = _CAST.fullmatch(part)
        if cast:
            yield cast["type"], part
        elif part in types:
            yield types[part], part
        else:
            raise ValueError(f"functions.toml: {function.symbol}: no type for argument {part!r}")


def _signature(library: Library, function: Function) -> str:
    parts = [f"{one.type} {one.name}" for one in function.parameters]
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
        known = declared.setdefault(function.driver, (types, function.symbol))
        if known[0] != types:
            raise ValueError(
                f"functions.toml: {function.symbol} and {known[1]} pass different types to"
                f" {function.driver}"
            )
    for name, (types, _) in sorted(declared.items()):
        yield f"extern int {name}({types});"


def _variant(library: Library, function: Function, variants: Variants) -> str:
    """Return a function that calls the plain one with the per-thread default stream."""
    values = ", ".join(
        f"{one.name} ? {one.name} : {variants.per_thread}"
        if one.type == variants.stream
        else one.name
        for one in function.parameters
    )
    call = f"tsr_{function.base}({values})"
    return f"{_signature(library, function)} {{ return {call}; }}"


def render_thunks(library: Library) -> str:
    """Return ``thunks.c``, which defines the generated implementations."""
    calling = [one for one in library.functions if one.kind and one.driver]
    lines = [BANNER, '#include "api.h"', "", *_declarations(calling), ""]
    for function in calling:
        lines += _thunk(library, function)
    if library.variants:
        lines += [_variant(library, one, library.variants) for one in library.functions if one.base]
    return "\n".join([*lines, ""])
