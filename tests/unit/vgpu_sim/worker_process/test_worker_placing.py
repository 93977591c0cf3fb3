"""The addresses of a worker's mappings."""

import subprocess
import sys

_IN_A_CHILD = """
import mmap
from vgpu_sim.worker import address_randomization

libc, page = address_randomization._libc, mmap.PAGESIZE
address_randomization.fill_holes()
inherited = address_randomization._take(1000 * page)
address_randomization.reserve_gap()
holes = [(1, 1), (5, 2), (90, 40), (200, 300)]
for first, count in holes:
    assert libc.munmap(inherited + first * page, count * page) == 0
place = address_randomization._take(page)
assert place > address_randomization._gap, "a hole is not taken first: the test shows nothing"
assert libc.munmap(place, page) == 0
address_randomization.fill_holes_above_gap(1 << 20)
for count in (1, 2, 40, 300):
    assert address_randomization._take(count * page) < address_randomization._gap, count
"""


def test_code_does_not_go_where_what_was_inherited_was_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_CHILD], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
