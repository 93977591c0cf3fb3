"""One operator of PyTorch on the device, prepared at its first call."""

from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch

from tessera_torch import counts, sharing
from tessera_torch.caches import startup
from tessera_torch.complexes.route import compute as compute_by_parts, has_complex, is_computed
from tessera_torch.refusal import Unsupported, refuse_or_fall_back
from tessera_torch.replay.key import CONSTANT, Described, describe, is_number
from tessera_torch.replay.plan import NOT_REPEATED
from tessera_torch.replay.recording import Recorder
from tessera_torch.signature import Signature, kinds_of_numbers

if TYPE_CHECKING:
    from tessera_torch.general import General
    from tessera_torch.pointwise import Pointwise

_KEPT_REFUSALS: Final = 1024
_KEPT_CALLS: Final = 4096
_CALLS_BEFORE_RECORDING: Final = 2  # a program may call with each of many sizes once


class Operator:
    """What is registered for an overload: it compiles kernels on demand."""

    def __init__(self, name: str, own: frozenset[str] | set[str]) -> None:
        self.name = name
        self._own = own
        self._signature: Signature | None = None
        self._compute: Pointwise | General | None = None
        self._refused: dict[Any, str] = {}
        # For each key a function that repeats the call, or how often it came, or False: never.
        self._repeated: dict[Any, Any] = {}
        self._kinds: tuple[int, ...] = ()
        self._kinds_by_name: dict[str, int] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Compute the operator."""
        counts.CALLS[self.name] += 1
        if sharing.in_use:
            signature = self._signature or self._prepare()
            arguments, keywords = sharing.read_in_place(signature, arguments, keywords)  # type: ignore[assignment]
        kinds = self._kinds
        described = describe(arguments, keywords, kinds, self._kinds_by_name) if kinds else None
        if described is None:
            return self._call(arguments, keywords, None)
        key, tensors, numbers = described
        replay = self._repeated.get(key)
        if replay.__class__ is FunctionType:
            result = replay(tensors, numbers)
            return self._call(arguments, keywords, None) if result is NOT_REPEATED else result
        return self._call(arguments, keywords, None if replay is False else described)

    def _call(
        self, arguments: Sequence[Any], keywords: dict[str, Any], described: Described | None
    ) -> Any:
        """Compute a call, and record it if it has come before."""
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
        refusal_reason = self._refused.get(_key(full)) if self._refused else None
        if refusal_reason is not None:
            return refuse_or_fall_back(signature, arguments, keywords, refusal_reason)
        try:
            if described is None or not self._has_come(described[0]):
                return self._compute(full)
            return self._record(full, arguments, keywords, described)
        except Exception as err:
            why = _reason(err)
            if why is None:
                raise
            if _is_lasting(err):
                if len(self._refused) >= _KEPT_REFUSALS:
                    self._refused.clear()
                self._refused[_key(full)] = why
        return refuse_or_fall_back(signature, arguments, keywords, why)

    def _has_come(self, key: Any) -> bool:
        """Count a call; return whether it came often enough to be recorded."""
        assert self._compute is not None
        if self._compute.fixes_numbers and any(self._kinds):
            self._set_kinds(list(self._kinds_by_name), [CONSTANT] * len(self._kinds))
            return False
        count = self._repeated.get(key, 0) + 1
        if count <= _CALLS_BEFORE_RECORDING:
            if len(self._repeated) >= _KEPT_CALLS:
                self._repeated.clear()
            self._repeated[key] = count
        return bool(count > _CALLS_BEFORE_RECORDING)

    def _record(
        self,
        full: list[Any],
        arguments: Sequence[Any],
        keywords: dict[str, Any],
        described: Described,
    ) -> Any:
        """Compute a call, and keep a function that repeats it."""
        signature, key = self._signature, described[0]
        assert signature is not None
        assert self._compute is not None
        recorder = Recorder(self._places(arguments, keywords), described[1])
        result = self._compute(full, recorder)
        later_description = describe(arguments, keywords, self._kinds, self._kinds_by_name)
        is_same = (
            later_description is not None and later_description[0] == key
        )  # an out= tensor may have been resized
        replay = recorder.make_replay(result, signature.targets(full)) if is_same else None
        self._repeated[key] = replay or False
        return result

    def _places(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> list[int]:
        """Return the schema's positions of the numbers that ``describe`` returns."""
        assert self._signature is not None
        positions = [*range(len(arguments)), *(self._signature.names.index(x) for x in keywords)]
        pairs = zip(positions, (*arguments, *keywords.values()), strict=True)
        return [i for i, argument in pairs if is_number(argument, self._kinds[i])]

    def _set_kinds(self, names: Sequence[str], kinds: Sequence[int]) -> None:
        self._kinds_by_name = dict(zip(names, kinds, strict=True))
        self._repeated.clear()
        self._kinds = tuple(kinds)

    def _prepare(self) -> Signature:
        signature = Signature(overload(self.name))
        if signature.functional is not None:
            from tessera_torch.general import General
            from tessera_torch.pointwise import Pointwise

            startup.compile_templates_late()
            if signature.is_pointwise:
                self._compute = Pointwise(signature)
            else:
                self._compute = General(signature, self._own)
            self._set_kinds(signature.names, kinds_of_numbers(signature))
        self._signature = signature  # last: another thread reads it without a lock
        return signature


def overload(name: str) -> Any:
    """Return an overload of aten by its name, such as ``add.Tensor``."""
    packet, _, overload_name = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload_name or "default")


def _key(argument: Any) -> Any:
    """Return what a refusal depends on: types, shapes and strides, and all other values."""
    if isinstance(argument, torch.Tensor):
        return argument.dtype, argument.device, tuple(argument.shape), argument.stride()
    return (
        tuple(_key(x) for x in argument) if isinstance(argument, (list, tuple)) else repr(argument)
    )


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
