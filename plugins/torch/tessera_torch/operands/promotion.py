"""Operands of element-wise operators, in the types in which PyTorch's CUDA kernels take them."""

from collections.abc import Sequence
from typing import Any, Final

import torch

from tessera_torch.arguments import Arguments
from tessera_torch.checks.messages import title
from tessera_torch.formulas import float8
from tessera_torch.operands import rules as operand_rules
from tessera_torch.signature import Signature

_HALF: Final = frozenset({torch.float16, torch.bfloat16})
_NARROW: Final = _HALF | float8.TYPES


def common_type(arguments: Arguments) -> Any:
    """Return the narrow float to which type promotion brings all operands, or None.

    Tensors with dimensions decide first, then those without, then Python's numbers.
    """
    scalars = [number for number in arguments.numbers if isinstance(number, torch.Tensor)]
    flat = [tensor for tensor in arguments.tensors if not tensor.dim()]
    for tensors in ([tensor for tensor in arguments.tensors if tensor.dim()], [*flat, *scalars]):
        if any(tensor.is_complex() for tensor in tensors):
            return None
        floats = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
        if floats:
            dtype = floats.pop()
            return dtype if not floats and dtype in _NARROW else None
    has_float = any(isinstance(number, float) for number in arguments.numbers)
    default = torch.get_default_dtype()
    return default if has_float and default in _NARROW else None


class Operands:
    """How the operands of one kernel are brought to the types that its formula takes."""

    def __init__(self, signature: Signature, arguments: Arguments, dtypes: Sequence[Any]) -> None:
        """Prepare a kernel. Raises RuntimeError for a parameter beyond the tensors' type."""
        self._given = arguments
        self._types = [tensor.dtype for tensor in arguments.tensors]
        self._common = None
        self._constants: dict[int, Any] = {}
        self._rounded = [False] * len(arguments.numbers)
        self._operator = ""
        if signature.functional is None:
            return
        schema = signature.functional._schema
        operator = self._operator = schema.name.partition("::")[2]
        names = [argument.name for argument in schema.arguments]
        self._result = dtypes[0]
        self._is_by_number = len(arguments.spec) > 1 and arguments.spec[1] == "n"
        self._mode = dict(zip(names, arguments.spec, strict=True)).get(
            "rounding_mode", ("c", None)
        )[1]
        common = common_type(arguments)
        if common is None or not operand_rules.has_promoted_operands(operator):
            return
        self._common = common
        self._rounded = [
            place >= 0 and operand_rules.rounds_number(operator, names[place])
            for place in arguments.places
        ]
        for i, kind in enumerate(arguments.spec):
            if not isinstance(kind, tuple) or type(kind[1]) not in (int, float):
                continue
            if operand_rules.rounds_parameter(operator, names[i]):
                self._constants[i] = _rounded(kind[1], common, is_checked=True)
            elif signature.numbers[i] and operand_rules.rounds_number(operator, names[i]):
                self._constants[i] = _rounded(kind[1], common)

    def rebuild(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return the formula's arguments; tensors of 8-bit floats are given as bytes."""
        decoded = [
            float8.decode(tensor, dtype) if dtype in float8.TYPES else tensor
            for tensor, dtype in zip(tensors, self._types, strict=True)
        ]
        if self._common is None:
            return self._given.rebuild(decoded, numbers)
        from tessera_torch.formulas.narrowing import narrow

        loaded = [
            tensor if dtype in (torch.bool, self._common) else narrow(tensor, self._common)
            for tensor, dtype in zip(decoded, self._types, strict=True)
        ]
        pairs = zip(numbers, self._rounded, strict=True)
        brought = [
            narrow(number, self._common) if is_rounded else number for number, is_rounded in pairs
        ]
        arguments = self._given.rebuild(loaded, brought)
        for i, value in self._constants.items():
            arguments[i] = value
        return arguments

    def compute(self, arguments: Sequence[Any]) -> Any:
        """Return a result whose steps CUDA's kernel has otherwise than the formula, or None."""
        if self._operator in ("copy", "_to_copy") and self._result == torch.uint8:
            source = arguments[self._operator == "copy"]
            # Triton's conversion to bytes saturates beyond 16 bits; CUDA's keeps the low bits.
            return source.to(torch.int64).to(torch.uint8) if source.is_floating_point() else None
        if self._operator == "div" and self._result.is_floating_point:
            return self._divide(*arguments[:2])
        exponent = arguments[1] if self._operator == "pow" else None
        is_number = type(exponent) in (int, float)
        if is_number and exponent in (3, -2) and self._common in _HALF:
            return self._raise(arguments[0], exponent)
        return None

    def _divide(self, first: Any, second: Any) -> Any:
        inner = torch.float64 if self._result == torch.float64 else torch.float32
        if self._is_by_number:
            if not operand_rules.multiplies_by_reciprocal(self._mode):
                return None
            quotient = first.to(inner) * (1.0 / second.to(inner))
        elif self._mode == "trunc" and self._common in _HALF:
            from tessera_torch.formulas.narrowing import narrow

            quotient = narrow(first.to(inner) / second.to(inner), self._common)
        else:
            return None
        return torch.trunc(quotient) if self._mode == "trunc" else quotient

    def _raise(self, base: Any, exponent: float) -> Any:
        from tessera_torch.formulas.narrowing import narrow

        single = base.to(torch.float32)
        square = narrow(single * single, self._common).to(torch.float32)
        return square * single if exponent == 3 else 1.0 / square


def check_float8(signature: Signature, arguments: Arguments) -> None:
    """Raise NotImplementedError if PyTorch has no kernel of an operator for 8-bit floats."""
    if signature.functional is None:
        return
    operator = signature.functional._schema.name.partition("::")[2]
    if operator in operand_rules.OF_8_BIT_FLOATS or operator in operand_rules.MOVES:
        return
    for tensor in arguments.tensors:
        if tensor.dtype in float8.TYPES:
            raise NotImplementedError(
                f"\"{operator}_cuda\" not implemented for '{title(tensor.dtype)}'"
            )


def convert(result: Any, dtype: Any, target: Any) -> Any:
    """Return a formula's result in its own type, and then in that of its target.

    Those of 8-bit floats are returned as bytes.
    """
    if dtype in float8.TYPES:
        codes = float8.encode(result.to(torch.float32), dtype)
        if target == dtype:
            return codes
        result = float8.decode(codes, dtype)
    elif dtype in _HALF and target != dtype:
        from tessera_torch.formulas.narrowing import narrow

        result = narrow(result.to(torch.float32), dtype)
    elif result.dtype != dtype:
        result = result.to(dtype)
    if target in float8.TYPES:
        return float8.encode(result.to(torch.float32), target)
    if dtype in float8.TYPES and not target.is_floating_point and target != torch.bool:
        return result.to(torch.int64).to(target)  # bytes keep the low bits of a larger number
    return result


def _rounded(value: float, dtype: Any, is_checked: bool = False) -> float:
    limit = torch.finfo(dtype).max
    if is_checked and limit < abs(value) < float("inf"):
        raise RuntimeError(f"value cannot be converted to type at::{title(dtype)} without overflow")
    number: float = torch.tensor(value, dtype=torch.float32).to(dtype).float().item()
    return number
