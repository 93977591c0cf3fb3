"""Which operators compute complex tensors by their parts."""

from collections.abc import Sequence
from typing import Any, Final

import torch

from tessera_torch.complexes import elementwise, products, reductions
from tessera_torch.signature import Signature
from tessera_torch.targets import write

_OPERATORS: Final = {**elementwise.OPERATORS, **products.OPERATORS, **reductions.OPERATORS}


def has_complex(full: Sequence[Any]) -> bool:
    """Return whether an argument is a complex tensor or number, or a list with one."""
    has_complex_part = False
    for argument in full:
        if isinstance(argument, torch.Tensor):
            if argument.dtype == torch.complex32:
                return False  # has no kernels: the usual way refuses it by name
            has_complex_part = has_complex_part or argument.is_complex()
        elif isinstance(argument, complex) or (
            isinstance(argument, (list, tuple)) and argument and has_complex(argument)
        ):
            has_complex_part = True
    return has_complex_part


def is_computed(signature: Signature) -> bool:
    """Return whether an operator has a kernel for complex tensors here."""
    name = _name(signature)
    return name in _OPERATORS or name in reductions.BY_PARTS


def compute(signature: Signature, full: Sequence[Any]) -> Any:
    """Compute an operator by parts, and write its targets if it has any."""
    inputs = signature.without_targets(full)
    schema = signature.functional._schema.arguments
    function = _OPERATORS.get(_name(signature))
    if function is None:
        result = reductions.by_parts(signature.functional, list(inputs))
    else:
        values = {
            a.name: argument
            for a, argument in zip(schema, inputs, strict=True)
            if argument is not a.default_value
        }
        result = function(**values)
    if not signature.writes:
        return result
    listed = result if isinstance(result, (list, tuple)) else (result,)
    for target, output in zip(signature.targets(full), listed, strict=True):
        if signature.is_out:
            write(signature.name, target, output)
            continue
        if not torch.can_cast(output.dtype, target.dtype):
            raise RuntimeError(
                f"result type {output.dtype} can't be cast to the desired output type"
                f" {target.dtype}"
            )
        target.copy_(output)
    return signature.answer(full)


def _name(signature: Signature) -> str:
    name: str = signature.functional._schema.name.split("::")[1]
    return name
