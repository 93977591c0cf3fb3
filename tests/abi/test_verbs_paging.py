"""libibverbs offers on-demand paging of the explicit kind: what follows, and what is refused."""

import errno
from pathlib import Path

import pytest
from verbs_tools import run_verbs_program

HEADER = Path("/usr/include/infiniband/verbs.h")


@pytest.mark.skipif(not HEADER.exists(), reason=f"NOT RUN: no {HEADER}: libibverbs-dev")
def test_a_region_follows_a_later_mapping_when_it_is_advised_to(tmp_path):
    done = run_verbs_program(tmp_path, "hca_paging")
    no, bad, gone, may_not = errno.EOPNOTSUPP, errno.EINVAL, errno.EFAULT, errno.EPERM
    assert done.stdout.splitlines() == [
        "offered 1 implicit 0 rc 0x3f",
        "read first",
        "mapped first no fault 0 first advised 0 second key same",
        "written third",
        f"hole {gone}",
        "dereg 0",
        f"read only {may_not} domain {may_not} range {gone} before {gone} pinned {gone}"
        f" advice {no} flags {bad} none {bad}",
        f"dereg 0 gone {gone}",
        f"implicit {no} huge {no}",
    ]
    assert done.returncode == 0
    assert "an implicit on-demand region (of all memory) is not supported" in done.stderr
