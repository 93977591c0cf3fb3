"""Kernels that launch kernels, copies and fills (CUDA Dynamic Parallelism), on both backends."""

import functools
import json
from pathlib import Path

from support.programs.scenarios import run_scenario

PROGRAM = Path(__file__).parents[1] / "programs" / "driver" / "device_launch.py"
ILLEGAL_ADDRESS, LAUNCH_FAILED, NOT_SUPPORTED = 700, 719, 801
# Where the launch buffer has its head, seen from its first record, with room for 8 records.
INDEX, HEAD = -64, -(64 + 1024 * 16 + 6208 + 64)
RAN = 1007  # the launch was what it had been
run = functools.partial(run_scenario, PROGRAM)


def test_children_run_in_order_and_before_the_next_request(either_backend):
    assert run("order", either_backend) == [6, 11, 12, 20, 30, 90, 100, 0]


def test_each_thread_launches_with_its_own_parameters(either_backend):
    numbers = [100 * thread + i for thread in range(8) for _ in range(2) for i in range(4)]
    assert run("widths", either_backend) == numbers


def test_grids_launch_one_another_24_deep(either_backend):
    grids, peeked, last, after, status = run("depth", either_backend)
    assert (grids, peeked, last, after) == (25, 65, 65, 0)
    assert status == 1  # of a launch without a buffer


def test_the_tail_stream_repeats_without_a_limit(either_backend):
    assert run("chain", either_backend) == [61]


def test_launches_beyond_the_limit_fail(either_backend):
    assert run("pending", either_backend) == [16, 69]


def test_impossible_launches_fail_in_the_kernel(either_backend):
    assert run("sizes", either_backend) == [9, 9, 9, 9, 9, 400, 0]


def test_copies_and_fills_have_their_place_in_a_stream(either_backend):
    created, copied, filled, destroyed, blocking, of_local, unused = 0, 0, 0, 0, 1, 1, 0
    assert run("copies", either_backend) == [
        *(1, 7, 0xABABABAB, 0xABAB),
        *(created, unused, copied, filled, destroyed, blocking, of_local),
    ]


def test_overwritten_records_are_refused(environment):
    cases = {
        "kernel": (0, 12345, LAUNCH_FAILED),
        "kind": (8, 99, LAUNCH_FAILED),
        "kind: a copy": (8, 2, ILLEGAL_ADDRESS),
        "kind: a fill": (8, 3, ILLEGAL_ADDRESS),
        "kind: a kernel that was not loaded": (8, 4, NOT_SUPPORTED),
        "kind: a graph": (8, 5, LAUNCH_FAILED),
        "grid": (16, 0, LAUNCH_FAILED),
        "block": (28, 5000, LAUNCH_FAILED),
        "shared memory": (40, 0x40000000, LAUNCH_FAILED),
        "too many bytes of parameters": (44, 0xFFFFFFFF, LAUNCH_FAILED),
        "too few bytes of parameters": (44, 8, LAUNCH_FAILED),
        "index": (INDEX, 0x77777740, LAUNCH_FAILED),
        "misaligned index": (INDEX, 4, LAUNCH_FAILED),
        "address of the records": (HEAD + 36, 0x7777, LAUNCH_FAILED),
        "address of the index": (HEAD + 44, 0x7777, LAUNCH_FAILED),
        "bytes in use": (HEAD + 8, 0xFFFFFFF0, RAN),
        "limit": (HEAD + 20, 0xFFFFFFFF, RAN),
    }
    places = json.dumps([case[:2] for case in cases.values()])
    codes = run("hostile", environment, places)
    assert dict(zip(cases, codes, strict=True)) == {name: case[2] for name, case in cases.items()}


def test_a_fault_of_a_child_ends_the_context(either_backend):
    assert run("fault", either_backend) == ILLEGAL_ADDRESS
