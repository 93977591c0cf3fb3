"""On-demand paging in libibverbs: the mappings that a region follows, and what is refused."""

import errno
from pathlib import Path

import pytest

from support.programs.verbs_tools import run_verbs_program

HEADER = Path("/usr/include/infiniband/verbs.h")


@pytest.mark.skipif(not HEADER.exists(), reason=f"NOT RUN: no {HEADER}: libibverbs-dev")
def test_a_region_follows_a_later_mapping_when_it_is_advised_to(tmp_path):
    done = run_verbs_program(tmp_path, "hca_paging")
    no, bad, gone, may_not = errno.EOPNOTSUPP, errno.EINVAL, errno.EFAULT, errno.EPERM
    assert done.stdout.splitlines() == [
        "offered 1 implicit 1 rc 0x3f",
        "read first",
        "mapped first no fault 0 first advised 0 second key same",
        "written third",
        f"hole {gone}",
        "dereg 0",
        f"read only {may_not} domain {may_not} range {gone} before {gone} pinned {gone}"
        f" advice {no} flags {bad} none {bad}",
        f"dereg 0 gone {gone}",
        f"implicit {no} huge {no}",
        "implicit 1000 across 1000 mapped 1000 half read 1000 half"
        f" hole {gone} advised 0 hole {gone}",
        f"domain {may_not} rereg -1 {no} may not {may_not} dereg 0 0 kept gone 0",
    ]
    assert done.returncode == 0
    assert "of all memory: peers cannot reach what is not registered yet" in done.stderr
