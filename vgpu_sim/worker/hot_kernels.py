"""Requests better code for the kernels that have run for long enough to be worth it.

Most kernels of a program run a few times, for microseconds. Better code of a kernel takes a tenth
of a second of CPU time to compile, and more of large kernels, at the cost of the program and of its
neighbours. So the first code of a kernel runs until the kernel is *hot*: until its launches have
taken ``WorkerConfig.hot_kernel_ns`` together, or one of them has been running for the whole time
between two looks.
"""

import heapq
import os
from collections import deque
from contextlib import suppress
from dataclasses import field
from typing import Final

from vgpu_sim.hal.compute.ports import Backend, NativeBackend
from vgpu_sim.records import dataclass
from vgpu_sim.worker.programs import Programs
from vgpu_sim.worker.runtime.binding import KernelHandle, NativeRuntime

Block = tuple[int, int, int]
FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 1.0


@dataclass(slots=True, order=True)
class _Watched:
    """A kernel with provisional code for a block shape; ``launches`` had ended at the last look."""

    next_look_s: float
    kernel: KernelHandle = field(compare=False)
    block: Block = field(compare=False)
    pause_s: float = field(compare=False)
    launches: int = field(compare=False)


class HotKernels:
    """The kernels with provisional code. The main thread calls ``look`` when ``fileno`` becomes
    readable, and when ``pause_s`` has passed. Times are seconds of ``time.monotonic``.
    """

    def __init__(
        self, runtime: NativeRuntime, backend: Backend, programs: Programs, hot_ns: int
    ) -> None:
        self._runtime = runtime
        self._backend = backend
        self._programs = programs
        self._hot_ns = hot_ns
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._new: deque[tuple[KernelHandle, Block]] = deque()
        self._watched: list[_Watched] = []  # a heap

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is a kernel to watch."""
        return self._event

    def watch(self, kernel: int, block: Block) -> None:
        """Watch a kernel that begins to run in provisional code. Callable on any thread."""
        self._new.append((KernelHandle(kernel), block))
        os.eventfd_write(self._event, 1)

    def pause_s(self, now_s: float) -> float:
        """Return the time until the next look; infinity if no kernel is watched."""
        return max(0.0, self._watched[0].next_look_s - now_s) if self._watched else float("inf")

    def look(self, now_s: float) -> None:
        """Request better code for the kernels that are hot now."""
        self._accept(now_s)
        while self._watched and self._watched[0].next_look_s <= now_s:
            watched_kernel = self._watched[0]
            try:
                site = self._programs.site(watched_kernel.kernel)
            except KeyError:  # unloaded meanwhile
                heapq.heappop(self._watched)
                continue
            launches, busy_ns = self._runtime.kernel_usage(watched_kernel.kernel)
            runs_on = launches == watched_kernel.launches and self._runtime.kernel_runs(
                watched_kernel.kernel
            )
            if runs_on or busy_ns >= self._hot_ns:
                heapq.heappop(self._watched)
                assert isinstance(self._backend, NativeBackend)
                self._backend.improve(site.program, site.function, watched_kernel.block)
                continue
            watched_kernel.launches = launches
            watched_kernel.pause_s = min(2 * watched_kernel.pause_s, LONGEST_PAUSE_S)
            watched_kernel.next_look_s = now_s + watched_kernel.pause_s
            heapq.heapreplace(self._watched, watched_kernel)

    def _accept(self, now_s: float) -> None:
        """Begin to look at the kernels of ``watch``."""
        with suppress(BlockingIOError):  # there are none
            os.eventfd_read(self._event)
        while self._new:
            kernel, block = self._new.popleft()
            launches, _ = self._runtime.kernel_usage(kernel)
            watched_kernel = _Watched(now_s + FIRST_PAUSE_S, kernel, block, FIRST_PAUSE_S, launches)
            heapq.heappush(self._watched, watched_kernel)
