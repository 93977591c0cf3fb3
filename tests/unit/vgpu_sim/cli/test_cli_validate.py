"""``tessera validate``: it covers every element, and reports every failure."""

import ctypes
from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from vgpu_sim.cli import validate


class Driver:
    """Executes the kernel's threads; ``spoiled`` elements get wrong results."""

    def __init__(self, *spoiled: int) -> None:
        self._spoiled = spoiled
        self.memory: dict[int, array[int]] = {}

    def __call__(self, name: str, *arguments: Any) -> None:
        getattr(self, name, lambda *_: None)(*arguments)

    def cuMemAlloc_v2(self, pointer: Any, size: Any) -> None:
        pointer._obj.value = 0x1000 * (len(self.memory) + 1)
        self.memory[pointer._obj.value] = array("I", bytes(size.value))

    def cuMemFree_v2(self, pointer: Any) -> None:
        del self.memory[pointer.value]

    def cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> None:
        self.memory[target.value] = array("I", ctypes.string_at(source.value, size.value))

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> None:
        ctypes.memmove(target.value, self.memory[source.value].tobytes(), size.value)

    def cuLaunchKernel(self, _: Any, grid: Any, *others: Any) -> None:
        block, addresses = others[2], others[-2]
        x, y = (ctypes.c_uint64.from_address(address).value for address in addresses[:2])
        count = ctypes.c_uint.from_address(addresses[2]).value
        for index in range(min(grid.value * block.value, count)):
            self.memory[y][index] = 3 * self.memory[x][index] + index
        for index in self._spoiled:
            self.memory[y][index] ^= 1


def test_every_element_is_computed_and_the_memory_given_back() -> None:
    driver = Driver()
    assert validate._wrong_elements(driver) == 0
    assert driver.memory == {}


def test_each_wrong_element_counts() -> None:
    assert validate._wrong_elements(Driver(0, 300, validate.ELEMENTS - 1)) == 3


def test_a_call_that_fails_is_named_with_its_error() -> None:
    def name_of(status: int, text: Any) -> None:
        text._obj.value = {100: b"CUDA_ERROR_NO_DEVICE"}.get(status)

    library: Any = SimpleNamespace(cuInit=lambda flags: flags, cuGetErrorName=name_of)
    call = validate._caller(library)
    call("cuInit", 0)
    with pytest.raises(validate.Failed, match=r"^cuInit: CUDA_ERROR_NO_DEVICE$"):
        call("cuInit", 100)
    with pytest.raises(validate.Failed, match=r"^cuInit: 12345$"):
        call("cuInit", 12345)


def test_without_a_driver_the_message_says_where_to_run() -> None:
    with pytest.raises(
        validate.Failed, match=r"cannot load the CUDA driver: .*; use a pod with a slice"
    ):
        validate.validate("libnowhere.so.1")
