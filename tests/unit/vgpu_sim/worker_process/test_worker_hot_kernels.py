"""Better code is requested for kernels that have run for long, and for no others."""

from types import SimpleNamespace
from typing import Any

import pytest

from vgpu_sim.hal.compute.ports import NativeBackend
from vgpu_sim.worker import hot_kernels
from vgpu_sim.worker.hot_kernels import FIRST_PAUSE_S, LONGEST_PAUSE_S, HotKernels
from vgpu_sim.worker.runtime.binding import KernelHandle

BLOCK = (32, 1, 1)
HOT_NS = 1000


class Context:
    """A context's kernels, with the launches that the test states, and the requests for code."""

    def __init__(self) -> None:
        self.usage = {KernelHandle(1): (0, 0), KernelHandle(2): (0, 0)}
        self.running: set[KernelHandle] = set()
        self.unloaded: set[KernelHandle] = set()
        self.improved: list[tuple[int, str, tuple[int, int, int]]] = []
        self.looks = 0

    def kernel_usage(self, handle: KernelHandle) -> tuple[int, int]:
        self.looks += 1
        return self.usage[handle]

    def kernel_runs(self, handle: KernelHandle) -> bool:
        return handle in self.running

    def site(self, handle: KernelHandle) -> Any:
        if handle in self.unloaded:
            raise KeyError(handle)
        return SimpleNamespace(program=10 * handle, function=f"k{handle}")

    def improve(self, program: int, function: str, block: tuple[int, int, int]) -> None:
        self.improved.append((program, function, block))


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def kernels(context: Context, monkeypatch: pytest.MonkeyPatch) -> HotKernels:
    monkeypatch.setattr(hot_kernels, "NativeBackend", Context)
    fake: Any = context
    return HotKernels(fake, fake, fake, HOT_NS)


def watch(kernels: HotKernels, *handles: int) -> None:
    for handle in handles:
        kernels.watch(handle, BLOCK)
    kernels.look(0)


def test_the_fake_has_what_the_backend_has() -> None:
    assert hasattr(NativeBackend, "improve")


def test_launches_that_add_up_are_improved_once(context: Context, kernels: HotKernels) -> None:
    watch(kernels, 1, 2)
    assert kernels.pause_s(0) == FIRST_PAUSE_S
    context.usage = {KernelHandle(1): (5, HOT_NS - 1), KernelHandle(2): (5, HOT_NS)}
    kernels.look(FIRST_PAUSE_S)
    assert context.improved == [(20, "k2", BLOCK)]
    context.usage[KernelHandle(1)] = (6, HOT_NS)
    kernels.look(3 * FIRST_PAUSE_S)
    kernels.look(100)
    assert context.improved == [(20, "k2", BLOCK), (10, "k1", BLOCK)]
    assert kernels.pause_s(100) == float("inf")


def test_a_launch_that_runs_on_is_improved(context: Context, kernels: HotKernels) -> None:
    context.running = {KernelHandle(1), KernelHandle(2)}
    watch(kernels, 1, 2)
    context.usage[KernelHandle(2)] = (1, 10)  # another launch of it began
    kernels.look(FIRST_PAUSE_S)
    assert context.improved == [(10, "k1", BLOCK)]
    kernels.look(3 * FIRST_PAUSE_S)
    assert context.improved[1:] == [(20, "k2", BLOCK)]


def test_pauses_double_up_to_the_longest(context: Context, kernels: HotKernels) -> None:
    watch(kernels, 1)
    now, pauses = 0.0, []
    for _ in range(10):
        pauses.append(kernels.pause_s(now))
        now += pauses[-1]
        kernels.look(now)
    expected = [min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(10)]
    assert pauses == pytest.approx(expected)
    assert context.improved == []


def test_between_looks_nothing_is_read(context: Context, kernels: HotKernels) -> None:
    watch(kernels, 1, 2)
    before = context.looks
    kernels.look(FIRST_PAUSE_S / 2)
    assert context.looks == before


def test_an_unloaded_kernel_is_forgotten(context: Context, kernels: HotKernels) -> None:
    watch(kernels, 1)
    context.usage[KernelHandle(1)] = (1, HOT_NS)
    context.unloaded = {KernelHandle(1)}
    kernels.look(FIRST_PAUSE_S)
    assert context.improved == []
    assert kernels.pause_s(0) == float("inf")
