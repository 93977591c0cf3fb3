"""One operator of PyTorch on the device, prepared at its first call."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.complexes.route import compute as compute_by_parts, has_complex, is_computed
from tessera_torch.refusal import Unsupported, refuse_or_fall_back
from tessera_torch.signature import Signature

_KEPT_REFUSALS: Final = 1024


class Operator:
    """What is registered for an overload: it compiles kernels on demand."""

    def __init__(self, name: str, own: frozenset[str] | set[str]) -> None:
        self.name = name
        self._own = own
        self._signature: Signature | None = None
        self._compute: Callable[[list[Any]], Any] | None = None
        self._refused: dict[Any, str] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Compute the operator."""
        counts.CALLS[self.name] += 1
        signature = self._signature or self._prepare()
        if self._compute is None:
            reason = "PyTorch has no form of it that returns its result"
            return refuse_or_fall_back(signature, arguments, keywords, reason)
        full = signature.bind(arguments, keywords)
        if has_complex(full) and is_computed(signature):
            try:
                return compute_by_parts(signature, full)
            except Unsupported as err:
                return refuse_or_fall_back(signature, arguments, keywords, err.reason)
        known = self._refused.get(_key(full)) if self._refused else None
        if known is not None:
            return refuse_or_fall_back(signature, arguments, keywords, known)
        try:
            return self._compute(full)
        except Exception as err:
            why = _reason(err)
            if why is None:
                raise
            if _is_lasting(err):
                if len(self._refused) >= _KEPT_REFUSALS:
                    self._refused.clear()
                self._refused[_key(full)] = why
        return refuse_or_fall_back(signature, arguments, keywords, why)

    def _prepare(self) -> Signature:
        signature = Signature(overload(self.name))
        if signature.functional is not None:
            from tessera_torch.general import General
            from tessera_torch.pointwise import Pointwise

            if signature.is_pointwise:
                self._compute = Pointwise(signature)
            else:
                self._compute = General(signature, self._own)
        self._signature = signature  # last: another thread reads it without a lock
        return signature


def overload(name: str) -> Any:
    """Return an overload of aten by its name, such as ``add.Tensor``."""
    packet, _, other = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), other or "default")


def _key(one: Any) -> Any:
    """Return what a refusal depends on: types, shapes and strides, and all other values."""
    if isinstance(one, torch.Tensor):
        return one.dtype, one.device, tuple(one.shape), one.stride()
    return tuple(_key(x) for x in one) if isinstance(one, (list, tuple)) else repr(one)


def _is_lasting(err: Exception) -> bool:
    """Return whether the same call would be refused again; other errors may be of one moment."""
    from tessera_torch.inference import NotInferred
    from tessera_torch.tracing import NotCompiled

    return isinstance(err, (NotCompiled, NotInferred))


def _reason(err: Exception) -> str | None:
    """Return why an operation has no kernel; None if the error is the program's."""
    from torch._inductor.exc import InductorError

    from tessera_torch.inference import NotInferred
    from tessera_torch.nesting import Nested
    from tessera_torch.tracing import NotCompiled

    line = str(err).strip().partition("\n")[0][:300]
    if isinstance(err, (NotCompiled, Nested, NotInferred)):
        return line
    if isinstance(err, (InductorError, AssertionError, KeyError, AttributeError)):
        return f"Inductor cannot compile it ({type(err).__name__}: {line})"
    return None
