"""Kernels that launch kernels, copies and fills (CUDA Dynamic Parallelism), on both backends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "programs" / "driver" / "device_launch.py"
TESTS = Path(__file__).parents[2]
ILLEGAL_ADDRESS, LAUNCH_FAILED, NOT_SUPPORTED = 700, 719, 801
# Where the launch buffer has its head, seen from its first record, with room for 8 records.
INDEX, HEAD = -64, -(64 + 1024 * 16 + 64)
RAN = 1007  # the launch was what it had been


def run(scenario: str, environment: dict[str, str], *more: object):
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), scenario, *map(str, more)],
        env={**environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


@pytest.mark.parametrize(
    ("offset", "value", "code"),
    [
        pytest.param(0, 12345, LAUNCH_FAILED, id="kernel"),
        pytest.param(8, 99, LAUNCH_FAILED, id="kind"),
        pytest.param(8, 2, ILLEGAL_ADDRESS, id="copy"),
        pytest.param(8, 3, ILLEGAL_ADDRESS, id="fill"),
        pytest.param(8, 4, NOT_SUPPORTED, id="not-loaded"),
        pytest.param(16, 0, LAUNCH_FAILED, id="grid"),
        pytest.param(28, 5000, LAUNCH_FAILED, id="block"),
        pytest.param(40, 0x40000000, LAUNCH_FAILED, id="shared"),
        pytest.param(44, 0xFFFFFFFF, LAUNCH_FAILED, id="parameters"),
        pytest.param(44, 8, LAUNCH_FAILED, id="fewer-parameters"),
        pytest.param(INDEX, 0x77777740, LAUNCH_FAILED, id="index"),
        pytest.param(INDEX, 4, LAUNCH_FAILED, id="misaligned-index"),
        pytest.param(HEAD + 36, 0x7777, LAUNCH_FAILED, id="records"),
        pytest.param(HEAD + 44, 0x7777, LAUNCH_FAILED, id="index-address"),
        pytest.param(HEAD + 8, 0xFFFFFFF0, RAN, id="used"),
        pytest.param(HEAD + 20, 0xFFFFFFFF, RAN, id="limit"),
    ],
)
def test_overwritten_records_are_refused(environment, request, offset, value, code):
    name = request.node.callspec.id
    assert run("hostile", environment, name, offset, value) == {name: code}


def test_a_fault_of_a_child_ends_the_context(either_backend):
    assert run("fault", either_backend) == ILLEGAL_ADDRESS
