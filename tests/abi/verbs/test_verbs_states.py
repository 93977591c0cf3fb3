"""libibverbs returns the states that hcad sets, and the times of completions."""

import errno

from hca.contract.verbs import VerbsStatus as Status
from support.programs.verbs_tools import run_verbs_program


def test_a_queue_pair_that_made_a_mistake_goes_on(tmp_path):
    done = run_verbs_program(tmp_path, "hca_states")
    assert done.stdout.splitlines() == [
        f"busy {errno.EBUSY} parent 0",
        "connect 0",
        "read 0",
        f"read 0 status {int(Status.LOC_QP_OP_ERR)} armed 0 recent 1 1",
        f"it is not in RTS {errno.EINVAL}",
        "it is in SQE 0",
        "send 0",
        "send 0 status 0 armed 0 recent 1 1",
    ]
    assert done.returncode == 0, done.stderr
