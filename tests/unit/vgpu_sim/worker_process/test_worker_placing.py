"""Where a worker maps what it maps."""

import subprocess
import sys

_IN_A_CHILD = """
import mmap
from vgpu_sim.worker import placing

libc, page = placing._libc, mmap.PAGESIZE
placing.stop_up_holes()
inherited = placing._take(1000 * page)
placing.take_gap()
holes = [(1, 1), (5, 2), (90, 40), (200, 300)]
for first, count in holes:
    assert libc.munmap(inherited + first * page, count * page) == 0
place = placing._take(page)
assert place > placing._gap, "a hole is not taken first: the test shows nothing"
assert libc.munmap(place, page) == 0
placing.pass_by_holes(1 << 20)
for count in (1, 2, 40, 300):
    assert placing._take(count * page) < placing._gap, count
"""


def test_code_does_not_go_where_what_was_inherited_was_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_CHILD], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
