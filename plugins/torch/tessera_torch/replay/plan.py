"""Recorded allocations and launches, as a function that issues them again."""

import functools
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._C._dynamo.guards import _empty_strided_cuda, _reinterpret_tensor

NOT_REPEATED: Final = object()
"""What a function returns that did nothing: tensors overlap, or another device is current."""

_BUFFER: Final = re.compile(r"\bb\d+\b")


@dataclass(frozen=True, slots=True)
class Allocation:
    """A new tensor, and its sizes, strides and type."""

    result: Any
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in the memory of another one."""

    result: Any
    base: Any
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch; ``launcher`` is None if it cannot be repeated."""

    launcher: Callable[..., Any] | None
    arguments: Sequence[Any]


Event = Allocation | View | Launch
Replay = Callable[[Sequence[Any], Sequence[Any]], Any]


class NotRepeatable(Exception):
    """A call did something that its events do not contain."""


# A launch in a thread that has no context yet fails; PyTorch's own code gives the thread one.
_IN_A_NEW_THREAD: Final = """\
 except RuntimeError as error:
  if "invalid device context" not in str(error): raise
  return not_repeated
"""


def make(
    events: Sequence[Event],
    tensors: Sequence[Any],
    places: Sequence[int],
    results: Any,
    written: Sequence[Any],
) -> Replay:
    """Return a function of a call's tensors and numbers that repeats the events.

    Args:
        events: what the call did, in order.
        tensors: the call's.
        places: the schema's positions of the call's numbers.
        results: what the call returned.
        written: those of the tensors that the call changed.

    Raises:
        NotRepeatable: a tensor comes from elsewhere.
    """
    return _Writer(tensors, places).write(events, results, written)


class _Writer:
    """Writes the function's text; all values are in its scope, so that texts repeat."""

    def __init__(self, tensors: Sequence[Any], places: Sequence[int]) -> None:
        self._places = list(places)
        self._names: dict[int, str] = {}
        for i, tensor in enumerate(tensors):
            self._names.setdefault(id(tensor), f"t[{i}]")
        self._tensors = tensors
        self._device = tensors[0].get_device() if tensors else -1
        self._kept: list[Any] = []  # ids are of living objects
        self._lines: list[str] = []
        self._scope: dict[str, Any] = {
            "device": torch._C._cuda_getDevice,
            "stream": torch._C._cuda_getCurrentRawStream,
            "allocate": _empty_strided_cuda,
            "view": _reinterpret_tensor,
            "not_repeated": NOT_REPEATED,
            "place": self._device,
        }

    def write(self, events: Sequence[Event], results: Any, written: Sequence[Any]) -> Replay:
        if any(tensor.get_device() != self._device for tensor in self._tensors):
            raise NotRepeatable
        self._lines.append("if device() != place: return not_repeated")
        self._check_overlap(written)
        self._lines.append("s = stream(place)")
        for event in events:
            self._write_event(event)
        self._lines.append(f"return {self._result(results)}")
        lines = "\n  ".join(_free_early(self._lines))
        text = f"def replay(t, n):\n try:\n  {lines}\n{_IN_A_NEW_THREAD}"
        return types.FunctionType(_compile(text), self._scope)

    def _write_event(self, event: Event) -> None:
        if isinstance(event, Launch):
            if event.launcher is None:
                raise NotRepeatable
            passed = ", ".join(self._argument(argument) for argument in event.arguments)
            self._lines.append(f"{self._keep(event.launcher)}({passed}, stream=s)")
            return
        values = ", ".join(self._keep(argument) for argument in event.arguments)
        if isinstance(event, Allocation):
            line = f"allocate({values})"
        else:
            line = f"view({self._tensor(event.base)}, {values})"
        name = f"b{len(self._kept)}"
        self._kept.append(event.result)
        self._names[id(event.result)] = name
        self._lines.append(f"{name} = {line}")

    def _argument(self, argument: Any) -> str:
        if isinstance(argument, torch.Tensor):
            return self._tensor(argument)
        place = getattr(argument, "place", None)
        if place in self._places:
            return f"n[{self._places.index(place)}]"
        if not isinstance(argument, (int, float)):
            raise NotRepeatable
        return self._keep(argument)

    def _tensor(self, tensor: Any) -> str:
        name = self._names.get(id(tensor))
        if name is None:
            raise NotRepeatable
        return name

    def _keep(self, value: Any) -> str:
        name = f"c{len(self._scope)}"
        self._scope[name] = value
        return name

    def _result(self, output: Any) -> str:
        if output is None:
            return "None"
        if isinstance(output, torch.Tensor):
            return self._tensor(output)
        if not isinstance(output, (list, tuple)):
            raise NotRepeatable
        inner = "".join(f"{self._result(x)}, " for x in output)
        return f"[{inner}]" if isinstance(output, list) else f"({inner})"

    def _check_overlap(self, written: Sequence[Any]) -> None:
        """Let tensors that are written be apart from all others, or equal to them."""
        if not written:
            return
        distinct = list({id(tensor): tensor for tensor in self._tensors}.values())
        for i, tensor in enumerate(distinct):
            self._lines.append(f"p{i} = {self._tensor(tensor)}.data_ptr()")
            self._lines.append(f"e{i} = p{i} + {_bytes(tensor)}")
        places = {id(tensor): i for i, tensor in enumerate(distinct)}
        for target in written:
            if id(target) not in places:
                raise NotRepeatable
            i = places[id(target)]
            for j, neighbour in enumerate(distinct):
                if i != j:
                    inequality = f"p{i} != p{j} and " if _laid_alike(target, neighbour) else ""
                    test = f"{inequality}p{i} < e{j} and p{j} < e{i}"
                    self._lines.append(f"if {test}: return not_repeated")


def _free_early(lines: Sequence[str]) -> list[str]:
    """Delete each buffer after the last line that names it, unless that returns it."""
    last: dict[str, int] = {}
    for i, line in enumerate(lines):
        last.update(dict.fromkeys(_BUFFER.findall(line), i))
    ends: dict[int, list[str]] = {}
    for name, i in last.items():
        ends.setdefault(i, []).append(name)
    freed = []
    for i, line in enumerate(lines):
        freed.append(line)
        if i in ends and i + 1 < len(lines):
            freed.append(f"del {', '.join(ends[i])}")
    return freed


def _laid_alike(first: Any, second: Any) -> bool:
    return bool(
        first.dtype == second.dtype
        and first.shape == second.shape
        and first.stride() == second.stride()
    )


def _bytes(tensor: Any) -> int:
    """Return the length of the memory from a tensor's first element to its last."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return int((1 + sum((n - 1) * s for n, s in steps)) * tensor.element_size())


@functools.lru_cache(maxsize=1024)
def _compile(text: str) -> types.CodeType:
    module = compile(text, "<replay>", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
