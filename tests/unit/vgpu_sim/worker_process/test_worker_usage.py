"""A context's usage: counted once, reported in parts that fit a message."""

import pytest

from vgpu_sim.gpud.contexts.worker_channel import MAX_MESSAGE_BYTES
from vgpu_sim.hal.compute import spawn
from vgpu_sim.worker import usage as usage_module
from vgpu_sim.worker.usage import KERNELS_PER_MESSAGE, Timed, Usage


def test_what_fails_takes_time_too(monkeypatch):
    clock = iter((1_000, 1_030, 2_000, 2_004))
    monkeypatch.setattr(usage_module, "monotonic_ns", lambda: next(clock))
    timed = Timed()
    assert timed.measure(lambda: 5) == 5
    assert timed == Timed(1, 30)
    with pytest.raises(ZeroDivisionError):
        timed.measure(lambda: 1 // 0)
    assert timed == Timed(2, 34)


def test_kernels_of_one_name_are_added_up():
    usage = Usage()
    usage.add_kernel("a", 2, 30)
    usage.add_kernel("a", 1, 10)
    usage.add_kernel("never ran", 0, 0)
    (message,) = usage.messages()
    assert message["kernels"] == [["a", 3, 40]]


@pytest.mark.parametrize("count", [0, 1, KERNELS_PER_MESSAGE, KERNELS_PER_MESSAGE + 1, 100])
def test_every_kernel_is_in_one_part_and_parts_fit(count):
    usage = Usage(modules=Timed(7, 8), shapes=Timed(9, 10), compiled=11, cached=12)
    usage.provisional, usage.improved, usage.swapped, usage.refused = 13, 14, 15, 16
    names = [f"{number:03}" + "k" * 124 for number in range(count)]
    for name in names:
        usage.add_kernel(name, (1 << 63) - 1, (1 << 63) - 1)
    parts = list(usage.messages())
    assert [row[0] for part in parts for row in part["kernels"]] == names
    assert all(len(spawn.encode({"type": "usage", **part})) < MAX_MESSAGE_BYTES for part in parts)
    assert {name: value for name, value in parts[0].items() if name != "kernels"} == {
        "modules": 7,
        "modules_ns": 8,
        "shapes": 9,
        "shapes_ns": 10,
        "compiled": 11,
        "cached": 12,
        "provisional": 13,
        "improved": 14,
        "swapped": 15,
        "refused": 16,
    }
    assert all(set(part) == {"kernels"} for part in parts[1:])
