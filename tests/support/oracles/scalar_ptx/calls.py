"""Calls of functions whose parameters and results are registers: each activation has its own
registers and its own local memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from support.oracles.scalar_ptx.text import WIDTHS, Kernel, Several, Statement, SyntaxFault
from support.oracles.scalar_ptx.threads import SPECIALS

if TYPE_CHECKING:
    from support.oracles.scalar_ptx.machine import Machine


def number(kernel: Kernel, name: str) -> int:
    """Return a number that represents a function's address; no program may inspect it."""
    return 0xF000 + 16 * list(kernel.functions).index(name)


def step(machine: "Machine", statement: Statement) -> Callable[[list[int]], None]:
    """Return the effect of a call on the caller's registers."""
    results, target, arguments, *_ = statement.operands
    if not isinstance(results, Several) or not isinstance(arguments, Several):
        raise SyntaxFault(f"{statement}")
    functions = machine.kernel.functions
    pointer = None if target in functions else machine.source(target, WIDTHS["b64"])
    first = functions[str(target)] if pointer is None else next(iter(functions.values()))
    widths = [first.registers[name] for name in first.takes]
    sources = [machine.source(a, bits) for a, bits in zip(arguments.parts, widths, strict=True)]
    places = [
        machine.source(r, first.registers[name])
        for r, name in zip(results.parts, first.returns, strict=True)
    ]

    def call(registers: list[int]) -> None:
        name = str(target)
        if pointer is not None:
            name = list(functions)[(registers[pointer] - 0xF000) // 16]
        callee = machine.function(name)
        found = callee.activate(machine, [registers[s] for s in sources], registers)
        for place, value in zip(places, found, strict=True):
            registers[place] = value

    return call


def special_registers(machine: "Machine", registers: list[int]) -> list[int]:
    """Return the values of ``SPECIALS`` in a thread's registers."""
    return [registers[machine.place(name)] for name in SPECIALS]
