"""Types and errors of a call, found by PyTorch's own shape functions without computing."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._pytree import tree_map

from tessera_torch.checks.messages import check_cast, reword
from tessera_torch.nesting import LOCK, quiet, without_fill
from tessera_torch.signature import Signature, call_with_numbers

_LOGGERS = ("torch._subclasses.fake_tensor",)
_UNKNOWN = (
    NotImplementedError,
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)


class NotInferred(Exception):
    """PyTorch has no shape function for an operation."""


def infer(signature: Signature, full: Sequence[Any]) -> tuple[Any, ...]:
    """Return the types of the functional form's results. Raises what ``infer_results`` raises."""
    results = infer_results(signature, full)
    return tuple(output.dtype if isinstance(output, torch.Tensor) else None for output in results)


def infer_results(signature: Signature, full: Sequence[Any]) -> tuple[Any, ...]:
    """Return the functional form's results without memory.

    Raises:
        NotInferred: PyTorch cannot compute shapes for it.
        Exception: what PyTorch raises for wrong arguments.
    """
    mode = FakeTensorMode(allow_fallback_kernels=False)

    def fake(argument: Any) -> Any:
        if not isinstance(argument, torch.Tensor):
            return argument
        with mode:
            return torch.empty_strided(
                argument.shape, argument.stride(), dtype=argument.dtype, device=argument.device
            )

    in_place = bool(signature.writes) and not signature.is_out
    try:
        with LOCK, without_fill(), quiet(_LOGGERS), mode, torch.no_grad():
            fakes = tree_map(fake, list(full))
            results = call_with_numbers(signature.functional, signature.without_targets(fakes))
            if in_place and signature.is_pointwise:
                _check_casts(results, signature.targets(full))
            if in_place:
                call_with_numbers(signature.overload, tree_map(fake, list(full)))
    except _UNKNOWN as err:
        raise NotInferred(str(err)) from err
    except (RuntimeError, IndexError) as err:
        text = reword(str(err))
        if text == str(err):
            raise
        raise type(err)(text) from None
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _check_casts(results: Any, targets: Sequence[Any]) -> None:
    listed = results if isinstance(results, (tuple, list)) else (results,)
    for output, target in zip(listed, targets, strict=False):
        if isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor):
            check_cast(output.dtype, target.dtype)
