"""What the table of rules consists of: rows, calls with their operands, and expected results."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from benchmarks.torch.rules.dtypes import Array, category, special_values, storage

Kind = Literal["tensor", "number", "cpu"]
# Types of errors that count as a refusal.
REFUSALS = ("RuntimeError", "TypeError", "ValueError", "NotImplementedError", "IndexError")
_FUNCTIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow"}
# Types of out= that hold a result of a kind, and that do not.
_WIDER = {"bool": "float32", "integer": "float32", "float": "float64"}
_NARROWER = {"integer": "bool", "float": "int32"}


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
    ``out`` states into what the result may be written: the first call of float16, or of the first
    type, is repeated with ``out=`` of a type that holds the result, and of one that does not.
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
            if self.out != "none" and dtype == self._type_of_out():
                yield from self._into(next(self.make(self, dtype)))
        elif self.call:
            yield self._refusal(dtype)
        else:
            for case in self.make(self, dtype):
                yield replace(case, results=(), refused=True, label=f"{dtype} refused")

    def _type_of_out(self) -> str:
        return "float16" if "float16" in self.accepts else self.accepts[0]

    def _into(self, case: Case) -> Iterator[Case]:
        """Yield a call that writes its result into tensors of other types."""
        (expected,) = case.results
        kind = category(expected.dtype)
        for target in filter(None, (_WIDER[kind], _NARROWER.get(kind))):
            call = with_out(case.call, target)
            is_refused = self.out == "exact" or target == _NARROWER.get(kind)
            results = () if is_refused else (_as_type(expected, target),)
            label = f"{case.label} into {target}"
            yield replace(case, call=call, results=results, refused=is_refused, label=label)

    def _refusal(self, dtype: str) -> Case:
        letters = sorted(set(re.findall(r"\b[abc]\b", self.call)))
        values = special_values(dtype)[:4]
        operands = tuple(Operand(values, dtype) for _ in letters)
        return Case(self.call, operands, refused=True, label=f"{dtype} refused")


def with_out(call: str, dtype: str) -> str:
    """Return a call that writes its result into an empty tensor of a type."""
    operator = re.fullmatch(r"(\w) (\S+) (\w)", call)
    if operator:
        call = f"torch.{_FUNCTIONS[operator[2]]}({operator[1]}, {operator[3]})"
    return f"{call.removesuffix(')')}, out=torch.empty(0, dtype=torch.{dtype}, device=DEVICE))"


def _as_type(expected: Expected, dtype: str) -> Expected:
    choices = tuple(choice.astype(storage(dtype)) for choice in expected.choices)
    limits = (expected.low, expected.high)
    low, high = (None if limit is None else limit.astype(storage(dtype)) for limit in limits)
    return replace(expected, dtype=dtype, choices=choices, low=low, high=high)


def tensor(values: object, dtype: str) -> Operand:
    """Make an operand on the device from numbers that are exact in the type."""
    return Operand(np.asarray(values), dtype)
