"""The calls of NCCL's InfiniBand transport, in NCCL's order, between two runs on one fabric."""

from pathlib import Path

import pytest

from hca.contract.verbs import VerbsState, VerbsStatus
from support.programs import c_programs
from support.programs.verbs_tools import two_runs

HEADER = Path("/usr/include/infiniband/verbs.h")
ERROR = int(VerbsState.ERR)


@pytest.mark.skipif(not HEADER.exists(), reason=f"NOT RUN: no {HEADER}: libibverbs-dev")
def test_its_start_and_its_messages(tmp_path):
    program = c_programs.compile_program(tmp_path, "nccl_net", "-ldl")
    sender, receiver = (said.splitlines() for said in two_runs(tmp_path, str(program)))
    unsupported = "tessera: {} is not supported (EOPNOTSUPP)"
    start = [
        "dma-buf Bad file descriptor",
        unsupported.format("ibv_query_ece"),
        "ece 1",
        "messages 40 wrong 0",
    ]
    end = [f"state {ERROR}", "ended 0"]
    # stdout and stderr are one pipe, in which lines may be out of order.
    assert sorted(sender) == sorted([*start, f"status {int(VerbsStatus.REM_ACCESS_ERR)}", *end])
    assert sorted(receiver) == sorted(
        [*start, "event local access violation work queue error", *end]
    )
