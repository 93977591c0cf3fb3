"""PyTorch's own checks before a kernel of this package, and PyTorch's strides after it."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch.checks.messages import name_types, reword
from tessera_torch.operator import overload
from tessera_torch.refusal import Unsupported, refuse_or_fall_back
from tessera_torch.signature import Signature

_KEPT: Final = 1024
_UNKNOWN: Final = object()


def with_refusals(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel whose refusals obey the user's choice of the CPU."""

    def compute_or_refuse(*arguments: Any, **keywords: Any) -> Any:
        try:
            return compute(*arguments, **keywords)
        except Unsupported as err:
            signature = Signature(overload(name))
            return refuse_or_fall_back(signature, arguments, keywords, err.reason)

    return compute_or_refuse


class Guarded:
    """A kernel that gets only arguments which PyTorch's shape function accepts.

    The shape function makes PyTorch's checks of types and sizes, which protect the memory beyond
    a tensor. Its strides are those that a compiled program expects.
    """

    def __init__(self, name: str, compute: Callable[..., Any]) -> None:
        self.name = name
        self._compute = with_refusals(name, compute)
        self._signature: Signature | None = None
        self._layouts: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Compute. Raises what PyTorch raises for wrong arguments."""
        signature = self._signature
        if signature is None:
            signature = self._signature = Signature(overload(self.name))
        full = signature.bind(arguments, keywords)
        layouts = self._infer(signature, full)
        results = self._compute(*arguments, **keywords)
        if signature.writes or layouts is None:
            return results
        if isinstance(results, (tuple, list)):
            return tuple(_arrange(*pair) for pair in zip(results, layouts, strict=True))
        return _arrange(results, layouts[0])

    def _infer(self, signature: Signature, full: Sequence[Any]) -> Any:
        from tessera_torch.inference import NotInferred, infer_results

        key = _key(full)
        with self._lock:
            layouts = self._layouts.get(key, _UNKNOWN)
        if layouts is not _UNKNOWN:
            return layouts
        form = Signature(signature.functional) if signature.writes else signature
        try:
            results = infer_results(form, signature.without_targets(full))
            layouts = tuple(_layout(output) for output in results)
        except NotInferred:
            layouts = None
        except (RuntimeError, AssertionError) as err:
            raise _error(err) from None
        with self._lock:
            if len(self._layouts) >= _KEPT:
                self._layouts.clear()
            self._layouts[key] = layouts
        return layouts


def _layout(result: Any) -> Any:
    """Return shape, strides and type; None of a result that is no tensor."""
    if not isinstance(result, torch.Tensor):
        return None
    return tuple(result.shape), result.stride(), result.dtype


def _key(full: Sequence[Any]) -> Any:
    return tuple(
        (argument.dtype, argument.device, tuple(argument.shape), argument.stride())
        if isinstance(argument, torch.Tensor)
        else repr(argument)
        for argument in full
    )


def _error(err: Exception) -> Exception:
    """Return the error of PyTorch's operator instead of that of its shape function in Python."""
    text = name_types(reword(str(err))).replace("linalg.inv_ex:", "linalg.inv:")
    if "Low precision dtypes not supported" in text:
        return NotImplementedError(text)
    return NotImplementedError(text) if isinstance(err, NotImplementedError) else RuntimeError(text)


def _arrange(result: Any, layout: Any) -> Any:
    if layout is None or not isinstance(result, torch.Tensor):
        return result
    shape, strides, dtype = layout
    if tuple(result.shape) != shape or result.dtype != dtype or result.stride() == strides:
        return result
    out = torch.empty_strided(shape, strides, dtype=dtype, device=result.device)
    return out.copy_(result)
