"""The most memory that each reader of a tenant's files has at a time: three times its limit.

``worker_process/test_tenant_readers.py`` has the other readers, and requires that each has a row.
"""

import subprocess
import sys

import pytest

from vgpu_sim.hal.messages import MAX_IMAGE_BYTES

# Reads an input in a process of its own and prints by how much the memory in use grew at most.
PROGRAM = """
import struct, sys
import lz4.block, zstandard
sys.path.insert(0, "tests")
from support.kernels.fat_binaries import make_entry, make_fat_binary, ptx_of
from vgpu_sim.hal.messages import MAX_IMAGE_BYTES, LinkInput
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import Module, container, sections
from vgpu_sim.worker.modules import fat_binary, images, link_inputs, links

CAPABILITY = (9, 0)
HEAD = ptx_of("80")

def text(size, end=b"\\0"):
    return HEAD.encode() + b" " * (size - len(HEAD) - len(end)) + end

def entry(size, compression, architecture=80, end=b"\\0"):
    return make_entry(architecture, text(size, end), compression=compression)

def unsized(size):
    data = text(size)
    stored = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    made = bytearray(make_entry(80, stored + bytes(-len(stored) % 8)))
    struct.pack_into("<I", made, 16, len(stored))
    struct.pack_into("<Q", made, 40, 0x8041)
    return bytes(made)

def elf(*binaries):
    section, names = b"".join(binaries), b"\\0.nv_fatbin\\0.shstrtab\\0"
    body = 64 + len(section)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\\x7fELF\\2\\1\\1", 1, 62, 1, 0, 0, body + len(names), 0, 64, 0, 0, 64, 3, 2)
    rows = [(0,) * 10, (1, 1, 0, 0, 64, len(section), 0, 0, 1, 0), (12, 3, 0, 0, body, len(names), 0, 0, 1, 0)]
    return header + section + names + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)

def archive(*members):
    made = b"!<arch>\\n"
    for member in members:
        made += struct.pack("16s12s6s6s8s10s2s", b"m.o/".ljust(16), b"0", b"0", b"0", b"0", (b"%d" % len(member)).ljust(10), b"`\\n") + member + bytes(len(member) % 2)
    return made

def linked(kind, *inputs):
    return b"".join(struct.pack("<IIQ", 1, kind, len(one)) + b"n" + one for one in inputs)

def code():  # many instructions, which take much more memory when decoded
    parts = sections.unpack(container.encode(compile_ptx(HEAD.replace("ret;", "ret;" * 1000), capability=CAPABILITY)))
    for kind in (sections.Section.CODE, sections.Section.LINES):
        parts[kind, 0] *= 1000
    return sections.pack(parts)

FULL, MANY = MAX_IMAGE_BYTES, 40
small = lambda size, kind="zstd": make_fat_binary(entry(size, kind))
wide = lambda: make_fat_binary(make_entry(80, text(FULL - 8, "\\N{GRINNING FACE}".encode()), compression="zstd"))
choose = lambda data: fat_binary.choose_ptx(data, CAPABILITY)
read = lambda data: [len(one) for _, one in link_inputs.Reader(CAPABILITY).read("n", data)]
link = lambda data: links.link(data, CAPABILITY, check_only=True)
ROWS = {
    "fat_binary.choose_ptx stored": (choose, lambda: small(FULL - 4096, "none")),
    "fat_binary.choose_ptx zstd": (choose, lambda: small(FULL)),
    "fat_binary.choose_ptx zstd without size": (choose, lambda: make_fat_binary(unsized(FULL))),
    "fat_binary.choose_ptx lz4": (choose, lambda: small(FULL, "lz4")),
    "fat_binary.choose_ptx 16 texts": (choose, lambda: make_fat_binary(*[entry(FULL, "zstd")] * 16)),
    "fat_binary.parse entries": (fat_binary.parse, lambda: make_fat_binary(*[make_entry(80, b"")] * 4096)),
    "fat_binary.split": (lambda data: list(fat_binary.split(memoryview(data))), lambda: small(FULL - 4096, "none")),
    "images.unpack": (lambda data: images.unpack(data, CAPABILITY), lambda: small(FULL)),
    "link_inputs.Reader.read stored object": (read, lambda: elf(small(FULL - 4096, "none"))),
    "link_inputs.Reader.read objects": (read, lambda: elf(*[small(FULL)] * MANY)),
    "link_inputs.Reader.read small texts": (read, lambda: elf(*[small(FULL // 8)] * MANY)),
    "link_inputs.Reader.read archive": (read, lambda: archive(*[elf(small(FULL // 8))] * MANY)),
    "link_inputs.Reader.read wide characters": (read, wide),
    "link_inputs.Reader.read container": (read, lambda: container.encode(Module((), source=" " * (FULL - 4096)))),
    "link_inputs.Reader.read container of code": (read, code),
    "link_inputs.Reader.read container of wide characters": (read, lambda: container.encode(Module((), source=" " * (FULL - 4096) + "\N{GRINNING FACE}"))),
    "link_inputs.Reader.read_plain": (lambda data: list(link_inputs.Reader(CAPABILITY).read_plain("n", data)), lambda: text(FULL)),
    "links.link objects": (link, lambda: linked(LinkInput.OBJECT, elf(*[small(FULL // 8)] * MANY))),
    "links.link one text": (link, lambda: linked(LinkInput.OBJECT, elf(*[small(FULL)] * MANY))),
}
if sys.argv[1] == "list":
    print("\\n".join(ROWS))
    sys.exit()

def memory(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024

call, make = ROWS[sys.argv[1]]
data = make()
open("/proc/self/clear_refs", "w").write("5")
begin = memory("VmRSS")
try:
    call(data)
except Exception as error:
    print(type(error).__name__, str(error).strip(), file=sys.stderr)
print(memory("VmHWM") - begin)
"""


def run(row: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, row],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert not done.stderr or "larger than 64 MiB" in done.stderr, done.stderr
    return done.stdout


ROWS = run("list").splitlines()


@pytest.mark.parametrize("row", ROWS)
def test_a_reader_has_at_most_three_times_its_limit(row: str) -> None:
    assert int(run(row)) <= 3 * MAX_IMAGE_BYTES
