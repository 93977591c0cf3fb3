"""Kernels that launch graphs (Device Graph Launch), on both backends."""

import functools
from pathlib import Path

from support.programs.scenarios import run_scenario

PROGRAM = Path(__file__).parents[2] / "programs" / "driver" / "device_graphs.py"
INVALID_VALUE, NOT_SUPPORTED = 1, 801
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED = 900, 901
run = functools.partial(run_scenario, PROGRAM)


def test_graphs_of_the_tail_stream_are_last(either_backend):
    notes = [1, 2, 10, 11, 40, 30, 20, 100]
    assert run("order", either_backend) == [len(notes), *notes, 0, *[0] * 4]


def test_a_graph_repeats_itself(either_backend):
    assert run("repeat", either_backend) == [300]


def test_a_kernel_knows_its_graph(either_backend):
    assert run("current", either_backend) == [True] * 3


def test_impossible_launches_fail_in_the_kernel(either_backend):
    assert run("errors", either_backend) == [*[INVALID_VALUE] * 7, 0]


def test_kernels_of_graphs_of_the_host_launch_graphs(either_backend):
    assert run("host", either_backend) == [4, 2, 1, 2, 1, 0, 7, 0, 0]


def test_nodes_and_changes(either_backend):
    assert run("nodes", either_backend) == [2, 9, 2, 5, 5, 5, 0]


def test_changes_do_not_lose_what_a_running_graph_launches(either_backend):
    assert run("in_flight", either_backend) == [2, 1, 1, 0, 0]


def test_libcuda_prints_which_nodes_keep_kernels_of_a_graph_from_launches(environment):
    assert run("lanes", environment) == [INVALID_VALUE, 1]


def test_graphs_without_nodes_are_different_graphs(either_backend):
    assert run("empty", either_backend) == [0]


def test_what_kernels_cannot_launch_is_refused(environment):
    found = [NOT_SUPPORTED, INVALID_VALUE, CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED]
    assert run("refusals", environment) == found


def test_copies_are_of_memory_that_the_device_accesses_as_such(environment):
    assert run("copies", environment) == [0, 0, NOT_SUPPORTED, NOT_SUPPORTED]
