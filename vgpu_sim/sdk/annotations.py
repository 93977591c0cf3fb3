"""What clang does not have for CUDA, or drops: annotations in its LLVM IR that become NVVM's.

``host_defines.h`` makes ``__managed__`` and ``__cluster_dims__`` annotations. clang 19 has neither;
clang 22 knows ``cluster_dims``, but does not write it to PTX.
"""

import re
from collections.abc import Iterator

from vgpu_sim.sdk.errors import CompileError

DEFINED = "-DTESSERA_ANNOTATIONS"
MANAGED = "tessera.managed"
CLUSTER = "tessera.cluster_dims"
NAME = r'@(?:"[^"]*"|[-\w.$]+)'
LIST = re.compile(r"^@llvm\.global\.annotations = .*\n", re.MULTILINE)
_ENTRY = re.compile(
    rf"{{ ptr (?:addrspacecast \(ptr addrspace\(1\) )?({NAME})(?: to ptr\))?, ptr (@[-\w.$]+),"
    r" ptr @[-\w.$]+, i32 \d+, ptr (null|@[-\w.$]+) }"
)
_METADATA = re.compile(r"^!(\d+) = ", re.MULTILINE)
MARKS_CLUSTERS = 22
"""The clang from which on a mark suffices; earlier ones may ignore it."""


def is_used(source: bytes) -> bool:
    """Return whether the text of a source and its headers has one of the annotations."""
    return b"__cluster_dims__" in source or has_managed(source)


def has_managed(source: bytes) -> bool:
    """Return whether the text of a source and its headers declares managed variables."""
    return b"__managed__" in source


def find(text: str, kind: str) -> Iterator[tuple[str, list[int]]]:
    """Yield what a module of LLVM IR annotates, by its name with ``@``, with the arguments."""
    word = re.escape(kind)
    marks = set(re.findall(rf'^(@[-\w.$]+) = .*c"{word}\\00"', text, re.MULTILINE))
    if not marks or not (listed := LIST.search(text)):
        return
    for name, mark, arguments in _ENTRY.findall(listed[0]):
        if mark in marks:
            yield name, _numbers(text, arguments)


def _numbers(text: str, arguments: str) -> list[int]:
    line = re.search(
        rf"^{re.escape(arguments)} = .* constant {{.*?}} {{(.*?)}}", text, re.MULTILINE
    )
    return [int(number) for number in re.findall(r"i32 (-?\d+)", line[1])] if line else []


def mark_device(text: str) -> str:
    """Return a device's IR with NVVM's marks in the place of the annotations."""
    marks = [f'ptr addrspace(1) {name}, !"managed", i32 1' for name, _ in find(text, MANAGED)]
    for name, sizes in find(text, CLUSTER):
        words = [
            f'!"cluster_dim_{axis}", i32 {size}'
            for axis, size in zip("xyz", _padded(sizes), strict=True)
        ]
        marks.append(f"ptr {name}, " + ", ".join(words))
    first = max((int(number) for number in _METADATA.findall(text)), default=-1) + 1
    lines = [
        f"!nvvm.annotations = !{{!{number}}}\n!{number} = !{{{mark}}}\n"
        for number, mark in enumerate(marks, first)
    ]
    return LIST.sub("", text) + "".join(lines)


def require_clusters(ptx: str, code: str) -> str:
    """Return PTX in which each kernel has the clusters that ``code``, the annotated IR, requires.

    clang writes them from the marks from version 22 on, if not earlier, and clang 19 does not.

    Raises:
        CompileError: a kernel is not where it is expected.
    """
    for name, sizes in find(code, CLUSTER):
        head = re.search(rf"^\.visible \.entry {re.escape(name[1:])}\([^{{]*", ptx, re.MULTILINE)
        if not head:
            raise CompileError(f"clang's PTX has no kernel {name[1:]}, to require its clusters")
        if ".reqnctapercluster" not in head[0]:
            words = ", ".join(map(str, _padded(sizes)))
            required = f".explicitcluster\n.reqnctapercluster {words}\n"
            ptx = ptx[: head.end()] + required + ptx[head.end() :]
    return ptx


def _padded(sizes: list[int]) -> list[int]:
    return [*sizes, 1, 1, 1][:3]
