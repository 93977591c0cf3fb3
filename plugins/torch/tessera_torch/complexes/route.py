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
    found = False
    for one in full:
        if isinstance(one, torch.Tensor):
            if one.dtype == torch.complex32:
                return False  # has no kernels: the usual way refuses it by name
            found = found or one.is_complex()
        elif isinstance(one, complex) or (
            isinstance(one, (list, tuple)) and one and has_complex(one)
        ):
            found = True
    return found


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
            a.name: one for a, one in zip(schema, inputs, strict=True) if one is not a.default_value
        }
        result = function(**values)
    if not signature.writes:
        return result
    listed = result if isinstance(result, (list, tuple)) else (result,)
    for target, one in zip(signature.targets(full), listed, strict=True):
        if signature.is_out:
            write(signature.name, target, one)
            continue
        if not torch.can_cast(one.dtype, target.dtype):
            raise RuntimeError(
                f"result type {one.dtype} can't be cast to the desired output type {target.dtype}"
            )
        target.copy_(one)
    return signature.answer(full)


def _name(signature: Signature) -> str:
    name: str = signature.functional._schema.name.split("::")[1]
    return name
