"""The OpenCL opponent: PoCL on the CPU, with an OpenCL version of the CUDA source."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.exec.contest import KERNELS, Array, Buffers, Launch, Work

INSTALL = (
    "apt-get install pocl-opencl-icd ocl-icd-libopencl1 && "
    ".venv/bin/python -m pip install --group bench"
)
OPTIONS = ("-cl-fast-relaxed-math", "-cl-mad-enable")
_PLATFORM = "Portable Computing Language"


class OpenClMissing(Exception):
    """pyopencl or PoCL is missing; the message states how to install them."""


def _device() -> tuple[Any, Any]:
    # PoCL's program cache is separate; the wheel's loader finds only the wheel's vendors.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    os.environ.setdefault("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
    try:
        import pyopencl as cl
    except ImportError as err:
        raise OpenClMissing(f"no pyopencl: {INSTALL}") from err
    try:
        platforms = cl.get_platforms()
    except cl.LogicError as err:
        raise OpenClMissing(f"no OpenCL platform: {INSTALL}") from err
    for platform in platforms:
        if platform.name == _PLATFORM:
            return cl, platform.get_devices(cl.device_type.CPU)[0]
    raise OpenClMissing(f"no PoCL among the OpenCL platforms: {INSTALL}")


def opencl_source(source: str) -> Path:
    """Return the path of a source's OpenCL C kernels, which may not exist."""
    return KERNELS / f"{source}.cl"


class OpenCl:
    """A problem's buffers and kernels on PoCL's CPU device. Raises OpenClMissing."""

    def __init__(self, source: str, buffers: Buffers, launches: Sequence[Launch]) -> None:
        self._cl, device = _device()
        cl = self._cl
        self.version = f"{device.platform.version}, {device.name}"
        context = cl.Context([device])
        self._queue = cl.CommandQueue(context)
        text = opencl_source(source).read_text()
        program = cl.Program(context, text).build(
            options=[*OPTIONS, "-I", str(KERNELS)], cache_dir=False
        )
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self._buffers = buffers
        self._memory = {name: cl.Buffer(context, flags, hostbuf=a) for name, a in buffers.items()}
        self._launches = []
        for launch in launches:
            kernel = cl.Kernel(program, launch.entry)
            kernel.set_args(
                *(self._memory[a] if isinstance(a, str) else a for a in launch.arguments)
            )
            size = tuple(g * b for g, b in zip(launch.grid, launch.block, strict=True))
            self._launches.append((kernel, size, launch.block))

    def work(self) -> Work:
        """Return a function that enqueues everything and waits."""
        enqueue, queue = self._cl.enqueue_nd_range_kernel, self._queue

        def once() -> None:  # keeps self alive, since kernels do not keep their buffers
            for kernel, size, group in self._launches:
                enqueue(queue, kernel, size, group)
            queue.finish()

        return once

    def results(self) -> Buffers:
        """Return the buffers' current contents."""
        contents: dict[str, Array] = {}
        for name, array in self._buffers.items():
            contents[name] = array.copy()
            self._cl.enqueue_copy(self._queue, contents[name], self._memory[name])
        return contents
