"""The recording of one call: what it allocates and launches, in order."""

import types
from collections.abc import Sequence
from typing import Any

import torch

from tessera_torch.replay import code, plan
from tessera_torch.replay.plan import Allocation, Event, Launch, View


class _Float(float):
    place: int


class _Int(int):
    place: int


class _Standin:
    """A number in the place of a tensor without dimensions on the CPU."""

    def __init__(self, value: float, place: int) -> None:
        self._value = value
        self._place = place

    def item(self) -> Any:
        number = _Int(self._value) if isinstance(self._value, int) else _Float(self._value)
        number.place = self._place
        return number


class _Kernel:
    """One of Inductor's kernels, whose launches are recorded."""

    def __init__(self, kernel: Any, events: list[Event]) -> None:
        self._kernel = kernel
        self._events = events

    def run(self, *arguments: Any, stream: int, **keywords: Any) -> Any:
        result = self._kernel.run(*arguments, stream=stream, **keywords)
        launcher = None if keywords else self._kernel._cached_launcher
        self._events.append(Launch(launcher, arguments))
        return result


class Recorder:
    """Runs a call's kernel, and makes a plan of it."""

    def __init__(self, places: Sequence[int], tensors: Sequence[Any]) -> None:
        """``places`` are the schema's positions of the numbers that the call's key leaves open."""
        self._places = places
        self._tensors = tensors
        self._events: list[Event] | None = None
        self._runs = 0

    def run(
        self,
        kernel: Any,
        passed: list[Any],
        places: Sequence[int],
        fresh: Sequence[Any] = (),
    ) -> Any:
        """Run a kernel, and record it.

        Args:
            kernel: the compiled kernel.
            passed: what it is given: sizes, numbers, tensors.
            places: the schema's positions of the numbers.
            fresh: those of the tensors that were allocated for the results.
        """
        self._runs += 1
        function = code.function_of(kernel.run)
        if self._runs > 1 or function is None or not set(self._places) <= set(places):
            self._events = None
            return kernel.run(passed)
        events: list[Event] = [
            Allocation(tensor, (tuple(tensor.shape), tensor.stride(), tensor.dtype))
            for tensor in fresh
        ]
        numbers = iter(places)
        recorded_arguments = []
        for argument in passed:
            if isinstance(argument, torch.Tensor) and not argument.is_cuda:
                value = argument.item()
                if isinstance(value, (bool, complex)):
                    return kernel.run(passed)
                recorded_arguments.append(_Standin(value, next(numbers)))
            else:
                recorded_arguments.append(argument)
        scope = dict(function.__globals__)
        for name in function.__code__.co_names:
            if hasattr(scope.get(name), "_cached_launcher"):
                scope[name] = _Kernel(scope[name], events)
        _record_calls(scope, events)
        results = types.FunctionType(function.__code__, scope)(
            kernel.run.compiled_fn_runner, recorded_arguments
        )
        self._events = events
        return results

    def make_replay(self, results: Any, written: Sequence[Any]) -> plan.Replay | None:
        """Return a function that repeats the call, whose results and written tensors these are."""
        if self._events is None or self._runs != 1:
            return None
        try:
            return plan.make(self._events, self._tensors, self._places, results, written)
        except plan.NotRepeatable:
            return None


def _record_calls(scope: dict[str, Any], events: list[Event]) -> None:
    allocate, view = scope.get("empty_strided_cuda"), scope.get("reinterpret_tensor")

    def record_allocation(*arguments: Any) -> Any:
        result = allocate(*arguments)  # type: ignore[misc]
        events.append(Allocation(result, arguments))
        return result

    def record_view(base: Any, *arguments: Any) -> Any:
        result = view(base, *arguments)  # type: ignore[misc]
        events.append(View(result, base, arguments))
        return result

    scope["empty_strided_cuda"] = record_allocation
    scope["reinterpret_tensor"] = record_view
