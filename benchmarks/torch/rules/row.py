"""What the table of rules consists of: rows, calls with their operands, and expected results."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from benchmarks.torch.rules.dtypes import Array, special_values

Kind = Literal["tensor", "number", "cpu"]
# Types of errors that count as a refusal.
REFUSALS = ("RuntimeError", "TypeError", "ValueError", "NotImplementedError", "IndexError")


@dataclass(frozen=True)
class Operand:
    """An argument: a tensor on the device, a tensor on the CPU, or a Python number."""

    values: Array
    dtype: str
    kind: Kind = "tensor"

    @property
    def is_scalar(self) -> bool:
        """A number or a CPU tensor without dimensions, which CUDA's loops receive as a number."""
        return self.kind != "tensor" and self.values.ndim == 0


@dataclass(frozen=True)
class Expected:
    """One result: its type, and for each element the values that agree with the rule.

    An element agrees if it equals that of any array of ``choices`` in all bits (NaNs are equal), or
    is between ``low`` and ``high``. Without ``zero_sign`` the sign of zero is left open. The parts
    of a complex number may be at a distance of ``relative``, which leaves that sign open, too.
    """

    dtype: str
    choices: tuple[Array, ...]
    low: Array | None = None
    high: Array | None = None
    zero_sign: bool = True
    relative: float = 0.0  # of complex numbers


@dataclass(frozen=True)
class Case:
    """One call: a Python expression with the operands' letters, and what it gives on CUDA."""

    call: str
    operands: tuple[Operand, ...]
    results: tuple[Expected, ...] = ()
    refused: bool = False
    label: str = ""
    only_type: bool = False  # random or uninitialized elements: shape and type are compared


@dataclass(frozen=True)
class Row:
    """One operator with CUDA's rule, its source, and the cases that the rule computes.

    A type that is refused has one case of ``call`` with some special values, or, without a
    ``call``, the cases that other types have: operands that are right but for their type.
    """

    name: str
    family: str
    rule: str
    source: str
    accepts: tuple[str, ...]
    make: Callable[["Row", str], Iterator[Case]] = field(repr=False)
    call: str = ""
    refuses: tuple[str, ...] = ()
    out: Literal["castable", "exact", "none"] = "none"

    def cases(self, dtype: str) -> Iterator[Case]:
        """Yield the calls with first operands of a type, which CUDA refuses for some types."""
        if dtype not in self.refuses:
            yield from self.make(self, dtype)
        elif self.call:
            yield self._refusal(dtype)
        else:
            for case in self.make(self, dtype):
                yield replace(case, results=(), refused=True, label=f"{dtype} refused")

    def _refusal(self, dtype: str) -> Case:
        letters = sorted(set(re.findall(r"\b[abc]\b", self.call)))
        values = special_values(dtype)[:4]
        operands = tuple(Operand(values, dtype) for _ in letters)
        return Case(self.call, operands, refused=True, label=f"{dtype} refused")


def tensor(values: object, dtype: str) -> Operand:
    """Make an operand on the device from numbers that are exact in the type."""
    return Operand(np.asarray(values), dtype)
