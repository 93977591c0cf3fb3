"""Where a worker maps what it maps."""

import subprocess
import sys

_IN_A_CHILD = """
import mmap
from vgpu_sim.worker import placing

libc, page = placing._libc, mmap.PAGESIZE

def give_back(places):
    for place in places:
        assert libc.munmap(place, page) == 0

placing.stop_up_holes()
inherited = placing._take(100 * page)
placing.take_gap()
before = [inherited + page * n for n in (1, 5, 6, 7, 90)]
own = placing._take(1 << 26)  # no small hole above has room
placing._take(1 << 33)  # whatever comes below it is too far from what lies above
for _ in range(30):  # more than one yard
    give_back(before)
    assert placing._take(page) in before, "a small hole is not taken first: the test shows nothing"
    placing.keep_code_together(50 << 20)
    # As a thread that ends, or frees a large block, while code is linked.
    give_back(own + page * n for n in (1, 5, 6, 7, 90))
    sections = [placing._take(page) for _ in range(40)] + [placing._take(50 << 20)]
    assert max(sections) - min(sections) < 1 << 31, [hex(section) for section in sections]
    assert not set(sections) & set(before)
"""


def test_sections_of_code_are_kept_together() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_CHILD], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
