"""Completion events: each names its queue; a queue can be destroyed when all are acknowledged."""

import errno

from hca.contract.verbs import VerbsStatus as Status
from support.programs.verbs_tools import run_verbs_program


def test_events_are_acknowledged_one_at_a_time(tmp_path):
    done = run_verbs_program(tmp_path, "hca_events")
    events = [
        line
        for queue in (1, 0)
        for line in (
            "event 0 0 0, of it 1 1",
            f"status {int(Status.WR_FLUSH_ERR)} of {queue}",
        )
    ]
    assert done.stdout.splitlines() == [
        "queue pair 0: 0",
        "queue pair 1: 0",
        *(events * 2),
        *[f"end {errno.EBUSY} 0 0"] * 2,
        "channel 0",
    ]
    assert done.returncode == 0, done.stderr
