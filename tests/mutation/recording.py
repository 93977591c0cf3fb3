"""``make mutate ARGS=--record``: runs each test file alone, and records the lines of C it reaches.

The libraries of a private copy are compiled so that they record the code that runs
(``reached.c``). The records are stored in ``out/reach.json``, with the duration of each file.
"""

import json
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from reach import Reach
from rooms import Room
from trial import Tree

NOTED = (
    *("-Og", "-fno-inline", "-fsanitize-coverage=trace-pc", "-Wno-error"),
    *("-fno-reorder-blocks", "-fno-crossjumping"),
)
# One per library: the provider contains the sources of libibverbs.
_NOTING = (
    *("vgpu_sim/clients/libcuda", "vgpu_sim/clients/libnvml", "vgpu_sim/clients/nvidia_smi"),
    *("hca/clients/libibverbs", "hca/clients/librdmacm"),
    *("vgpu_sim/worker/runtime", "hca/engine"),
)
_CALL = re.compile(r"^ *([0-9a-f]+):\t.*\bcall.*<__sanitizer_cov_trace_pc")
_FOLLOWING = re.compile(r"^ *([0-9a-f]+):\t")
_PLACE = re.compile(r"^(?:\./)+(\S+\.c):(\d+)")


def record(root: Path, scratch: Path, rooms: Sequence[Room], reach: Reach, output: Path) -> None:
    """Run every test file of the rooms that have C files, and record the lines that each
    reaches.
    """
    tree, notes = Tree(root, scratch / "recorded"), scratch / "notes"
    prepare(tree.directory, notes)
    assert tree.builds(), "it does not compile so that it notes what runs"
    libraries = Libraries(tree.directory / "vgpu_sim/native/lib")
    beginnings = libraries.beginnings()
    texts = {name: (root / name).read_text(encoding="utf-8") for name in beginnings}
    reach.begin(texts, beginnings)
    in_c = [room for room in rooms if any(one.endswith(".c") for one in room.files)]
    tests = dict.fromkeys(
        test for room in in_c for stage in room.stages for test in tree.tests(stage)
    )
    for number, test in enumerate(tests, 1):
        libraries.take(notes)
        began = time.monotonic()
        passed = tree.passes([test], options=())
        seconds = time.monotonic() - began
        reached = libraries.take(notes)
        reach.add(test, seconds, reached)
        reach.write(output)
        lines = sum(map(len, reached.values()))
        failed = "" if passed else ", with failures"
        print(f"[{number}/{len(tests)}] {seconds:4.0f} s {test}: {lines} lines{failed}", flush=True)


def prepare(tree: Path, notes: Path) -> None:
    """Change a private copy of the tree so that its libraries record executed code in ``notes``."""
    notes.mkdir()
    for folder in _NOTING:
        noting = (Path(__file__).parent / "reached.c").read_text(encoding="utf-8")
        target = tree / folder / "reached.c"
        target.write_text(noting.replace("REACHED", json.dumps(str(notes)), 1), encoding="utf-8")
    build = tree / "vgpu_sim/native/build.py"
    flags = ", ".join(map(json.dumps, NOTED))
    text = build.read_text(encoding="utf-8")
    assert text.count('"-O2",\n') == 1
    # The last flag of a kind counts, so -Wno-error follows -Werror.
    text = text.replace('"-O2",\n', "").replace('"-Werror",\n', f'"-Werror", {flags},\n')
    build.write_text(text, encoding="utf-8")


class Libraries:
    """The positions of basic blocks in the libraries that record executed code."""

    def __init__(self, directory: Path) -> None:
        self._places: dict[str, dict[int, tuple[str, int]]] = {}
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                self._places[path.name] = _places(path)

    def beginnings(self) -> dict[str, set[int]]:
        """Return the lines of every source where a basic block begins."""
        found: dict[str, set[int]] = {}
        for places in self._places.values():
            for name, line in places.values():
                found.setdefault(name, set()).add(line)
        return found

    def take(self, notes: Path) -> dict[str, set[int]]:
        """Return the recorded lines, and reset the record."""
        found: dict[str, set[int]] = {}
        for path in notes.iterdir():
            noted = path.read_bytes()
            for offset, (name, line) in self._places.get(path.name, {}).items():
                if noted[offset : offset + 1] == b"\1":
                    found.setdefault(name, set()).add(line)
            path.unlink()
        return found


def _places(library: Path) -> dict[int, tuple[str, int]]:
    """Map the return address of each recording call in a library to the line whose code it
    begins.
    """
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    behind: list[int] = []
    called = False
    for row in listing.splitlines():
        found = _FOLLOWING.match(row)
        if found and called:
            behind.append(int(found[1], 16))
        if found:
            called = _CALL.match(row) is not None
    addresses = "\n".join(f"{address:#x}" for address in behind)
    answer = subprocess.run(
        ["addr2line", "-e", library], input=addresses, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    places = {}
    for address, row in zip(behind, answer, strict=True):
        found = _PLACE.match(row)
        if found:
            places[address] = (found[1], int(found[2]))
    return places
