"""Arguments of a call, split into what a kernel depends on and what it is given each time."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch.signature import Signature

_KEPT_NUMBERS: Final = 4096
_NUMBERS: Final[dict[tuple[Any, ...], Any]] = {}
_WIDE: Final = (torch.float64, torch.complex128)
_BY_TEXT: Final = (float, complex, tuple)  # -0.0 equals 0.0, and a NaN not itself


class Arguments:
    """The functional form's arguments: tensors, run-time numbers, and a key for all others."""

    __slots__ = ("key", "numbers", "places", "spec", "tensors")

    def __init__(self, signature: Signature, inputs: Sequence[Any], fixed: bool = False) -> None:
        """Split the arguments; if ``fixed``, a kernel depends on the values of numbers."""
        self.tensors: list[Any] = []  # on the device
        self.numbers: list[Any] = []  # Python numbers, and tensors of the CPU without dimensions
        self.places: list[int] = []  # the inputs' positions of the numbers; -1 within a list
        self.spec: list[Any] = []  # how to make the arguments again
        key: list[Any] = [torch.get_default_dtype()]
        flags = signature.numbers
        alpha = signature.alpha
        for i, argument in enumerate(inputs):
            if isinstance(argument, torch.Tensor):
                key.append(self._add(argument, i))
                self.spec.append("t" if argument.is_cuda else "n")
            elif isinstance(argument, (list, tuple)) and any(
                isinstance(x, torch.Tensor) for x in argument
            ):
                key.append(tuple(None if x is None else self._add(x) for x in argument))
                self.spec.append(
                    [None if x is None else "t" if x.is_cuda else "n" for x in argument]
                )
            elif (
                flags[i]
                and not fixed
                and type(argument) in (int, float)
                and not (i == alpha and argument == 1)
            ):
                key.append(type(argument))
                self.numbers.append(argument)
                self.places.append(i)
                self.spec.append("n")
            else:
                value = tuple(argument) if isinstance(argument, list) else argument
                key.append((type(value), repr(value) if type(value) in _BY_TEXT else value))
                self.spec.append(("c", argument))
        self.key = tuple(key)

    def _add(self, tensor: Any, position: int = -1) -> tuple[Any, ...]:
        if tensor.is_cuda:
            self.tensors.append(tensor)
            return tensor.dtype, tensor.dim() == 0, tensor.device.index
        if tensor.dim():
            place = self.tensors[0].device if self.tensors else "cuda"
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices,"
                f" {place} and {tensor.device}!"
            )
        self.numbers.append(tensor)
        self.places.append(position)
        return tensor.dtype, "number"

    def is_wide(self) -> bool:
        """Return whether numbers need double precision."""
        if torch.get_default_dtype() in _WIDE:
            return True
        return any(tensor.dtype in _WIDE for tensor in self.tensors)

    def has_python_numbers(self) -> bool:
        """Return whether a kernel is given numbers of the program."""
        return any(not isinstance(number, torch.Tensor) for number in self.numbers)

    def passed_numbers(self, wide: bool) -> list[Any]:
        """Return the numbers as a kernel gets them."""
        return [
            number if isinstance(number, torch.Tensor) else _as_tensor(number, wide)
            for number in self.numbers
        ]

    def rebuild(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return the arguments with other tensors and numbers."""
        remaining_tensors, remaining_numbers = iter(tensors), iter(numbers)

        def take(kind: Any) -> Any:
            return (
                None
                if kind is None
                else next(remaining_tensors)
                if kind == "t"
                else next(remaining_numbers)
            )

        return [
            kind[1]
            if isinstance(kind, tuple)
            else [take(k) for k in kind]
            if isinstance(kind, list)
            else take(kind)
            for kind in self.spec
        ]

    def check_devices(self) -> None:
        """Raise RuntimeError if tensors are on different devices."""
        places = {tensor.device for tensor in self.tensors}
        if len(places) > 1:
            names = ", ".join(sorted(str(place) for place in places))
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices,"
                f" {names}!"
            )


def _as_tensor(value: Any, wide: bool) -> Any:
    key = (type(value), value, wide, str(value) if value == 0 else "")
    cached_tensor = _NUMBERS.get(key)
    if cached_tensor is None:
        dtype = torch.int64 if isinstance(value, int) else torch.float64 if wide else torch.float32
        cached_tensor = torch.tensor(value, dtype=dtype)
        if len(_NUMBERS) >= _KEPT_NUMBERS:
            _NUMBERS.clear()
        _NUMBERS[key] = cached_tensor
    return cached_tensor


def on_device(device: Any, common: Any) -> Callable[[Any], Any]:
    """Return a function that brings numbers to the device inside a kernel.

    A number that is converted on the CPU's side would make Inductor build C++ code.
    """

    def bring(number: Any) -> Any:
        moved = torch.ones((), dtype=number.dtype, device=device) * number  # keeps -0.0
        if common is None or moved.dtype == common or common in (torch.float16, torch.bfloat16):
            return moved
        return moved.to(common)

    return bring
