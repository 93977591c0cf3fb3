"""Linking of object code at any addresses, and the release of dropped code."""

import subprocess
import sys
from pathlib import Path

from support.processes import hostile_objects

# Constants that fit in a page and code that does not: sections mapped apart are placed apart.
_OBJECT = """
@table = internal constant [4 x i64] [i64 17, i64 -5, i64 40000000000, i64 9]
define void @entry(ptr %out, i64 %index) nounwind {
  %place = getelementptr [4 x i64], ptr @table, i64 0, i64 %index
  %value = load volatile i64, ptr %place
  store i64 %value, ptr %out
  call void asm sideeffect ".skip 20000, 0x90", ""()
  ret void
}
"""

_PRELUDE = """
import ctypes, gc, mmap, pathlib, sys
from vgpu_sim.exec import jit
from vgpu_sim.worker import address_randomization

libc, page = address_randomization._libc, mmap.PAGESIZE
object_code = pathlib.Path(sys.argv[1]).read_bytes()
compiler = jit.Compiler()

def load():
    return compiler.load(jit.NativeCode("entry", object_code, jit.Plan(16, 1), (32, 1, 1), 20_000))

def check(loaded):
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)(loaded.entry)
    found = (ctypes.c_int64 * 4)()
    for index in range(4):
        function(ctypes.addressof(found) + 8 * index, index)
    assert list(found) == [17, -5, 40_000_000_000, 9], list(found)

check(load())  # what LLVM maps for itself is there now
"""

_FAR_APART = (
    _PRELUDE
    + """
address_randomization.fill_holes()
high = address_randomization._take(100 * page)
address_randomization._take(1 << 33)  # memory below it is too far from memory above
address_randomization.fill_holes()  # large mappings begin where huge pages do
holes = [high + page * n for n in range(1, 99, 7)]
for hole in holes:
    assert libc.munmap(hole, page) == 0
taken = address_randomization._take(page)
assert taken in holes, "a small hole is not taken first: the test shows nothing"
for _ in range(3):
    check(load())
"""
)

_GIVEN_BACK = (
    _PRELUDE
    + """
def mappings():
    gc.collect()
    return len(pathlib.Path("/proc/self/maps").read_text().splitlines())

before = mappings()
kept = [load() for _ in range(50)]
assert mappings() >= before + 50, "code is not seen among the mappings: the test shows nothing"
for loaded in kept:
    check(loaded)
loaded = None
kept.clear()
assert mappings() < before + 10, (before, mappings())
"""
)


def _run(script: str, directory: Path) -> None:
    path = directory / "object"
    path.write_bytes(hostile_objects.object_of(_OBJECT))
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_object_is_one_piece_wherever_there_is_room(tmp_path: Path) -> None:
    _run(_FAR_APART, tmp_path)


def test_dropped_code_is_freed(tmp_path: Path) -> None:
    _run(_GIVEN_BACK, tmp_path)
