"""Tessera's contender: the committed PTX through libcuda, on device memory."""

import ctypes
import os
from collections.abc import Sequence

import numpy as np

from benchmarks.driver_api import Driver
from benchmarks.exec.contest import KERNELS, Array, Buffers, KernelMissing, Launch, TensorMap, Work


def read_ptx(source: str) -> str:
    """Return the kernels' text. Raises KernelMissing if the file is missing."""
    ptx = KERNELS / os.path.expandvars(f"{source}.ptx")
    if not ptx.exists():
        raise KernelMissing(f"not measured: set {source.partition('/')[0].removeprefix('$')}")
    return ptx.read_text()


class Ours:
    """A problem's buffers in device memory and its launches, ready to be repeated."""

    def __init__(self, ptx: str, buffers: Buffers, launches: Sequence[Launch]) -> None:
        self._driver = Driver()
        self._buffers = buffers
        self._pointers = {name: self._driver.upload(array) for name, array in buffers.items()}
        module = self._driver.module(ptx.encode())
        self._launches = [
            self._driver.prepare(
                self._driver.function(module, launch.entry, launch.shared_bytes),
                (*launch.grid, *launch.block),
                [self._argument(a) for a in launch.arguments],
                launch.shared_bytes,
            )
            for launch in launches
        ]

    def _argument(
        self, argument: str | np.generic | TensorMap
    ) -> ctypes.Array[ctypes.c_char] | ctypes.c_uint64:
        if isinstance(argument, str):
            return self._pointers[argument]
        if isinstance(argument, TensorMap):
            array = self._buffers[argument.buffer]
            return self._driver.map_tensor(
                argument.type,
                self._pointers[argument.buffer],
                (array.shape[1], array.shape[0], array.strides[0]),
                argument.box,
                argument.swizzle_bytes,
            )
        raw = argument.tobytes()
        return ctypes.create_string_buffer(raw, len(raw))

    def work(self) -> Work:
        """Return a function that launches everything and waits."""

        def once() -> None:
            for launch in self._launches:
                launch()
            self._driver.wait()

        return once

    def results(self) -> Buffers:
        """Return the buffers' current contents."""
        contents: dict[str, Array] = {}
        for name, array in self._buffers.items():
            contents[name] = np.empty_like(array)
            self._driver.download(self._pointers[name], contents[name])
        return contents
