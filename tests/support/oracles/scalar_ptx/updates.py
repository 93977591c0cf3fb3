"""atom and red of the scalar machine: the effect of one update on memory, with Python's numbers."""

from collections.abc import Callable
from typing import Any

from support.oracles.scalar_ptx import numbers
from support.oracles.scalar_ptx.memory import Race
from support.oracles.scalar_ptx.text import WIDTHS, Address, Statement, SyntaxFault

_ONE_BY_ONE = frozenset(["exch", "cas", "inc", "dec"])  # their order is observable
Update = Callable[..., int]
"""A function from the former value and the operands to the new value."""


def update(operation: str, kind: str, *, in_global: bool) -> Update:
    """Return the function of an update on values of a type such as ``u32``.

    f32 sums flush subnormal numbers only in global memory (PTX ISA, "atom").
    """
    bits = int(kind[1:])
    mask = (1 << bits) - 1
    if kind[0] == "f":
        total = numbers.function(("add", "rn", "ftz", kind) if bits == 32 and in_global
                                 else ("add", "rn", kind)).compute  # fmt: skip
        return lambda m, b: total(m, b)

    def number(pattern: int) -> int:
        return numbers.to_signed(pattern, bits) if kind[0] == "s" else pattern

    results: dict[str, Update] = {
        "and": lambda m, b: m & b,
        "or": lambda m, b: m | b,
        "xor": lambda m, b: m ^ b,
        "exch": lambda m, b: b,
        "add": lambda m, b: m + b & mask,
        "inc": lambda m, b: m + 1 if m < b else 0,
        "dec": lambda m, b: b if m == 0 or m > b else m - 1,
        "min": lambda m, b: min(m, b, key=number),
        "max": lambda m, b: max(m, b, key=number),
        "cas": lambda m, b, c: c if m == b else m,
    }
    return results[operation]


def step(machine: Any, statement: Statement) -> Callable[[list[int]], None]:
    """Return the step of an update on a machine (``machine.Machine``): of the thread's own part of
    memory, or of shared memory without a result.
    """
    opcode, space, operation, kind = statement.words
    size = WIDTHS[kind] // 8
    where, *operands = statement.operands[opcode == "atom" :]
    result = machine._target(statement.operands[0], size * 8) if opcode == "atom" else None
    if not isinstance(where, Address) or space not in ("global", "shared"):
        raise SyntaxFault(f"operands of {statement}")
    sources = [machine._source(operand, size * 8) for operand in operands]
    change = update(operation, kind, in_global=space == "global")
    address_of = machine._narrow_address(where) if space == "shared" else machine._address(where)

    def run(r: list[int]) -> None:
        address, values = address_of(r), [r[s] for s in sources]
        machine._check_aligned(address, size, statement)
        if space == "shared":
            if result is not None or operation in _ONE_BY_ONE:
                raise Race
            kind_of_update = f"{operation}.{kind}"
            machine._shared.update(address, size, kind_of_update, lambda m: change(m, *values))
            return
        region, offset = machine._find(address, size, statement)
        machine._check_share(region, offset, size, write=True)
        before = int.from_bytes(region.data[offset : offset + size], "little")
        region.data[offset : offset + size] = change(before, *values).to_bytes(size, "little")
        if result is not None:
            r[result] = before

    return run
