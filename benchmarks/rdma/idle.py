"""The cost of idle programs for their neighbour: ``python -m benchmarks.rdma.idle``.

One program writes 8 bytes to another function of its node, one request after the other, while
the programs of other functions send no requests. The writer is in C, in a thread next to the
engine's: it needs two cores. ``--library FILE`` measures another build of the engine.
"""

import argparse
import ctypes
import os
import resource
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.compile_c import compile_c
from benchmarks.rdma.neighbour import Program
from benchmarks.report import Row, Section, machine, table
from hca.binding.addresses import address_of
from hca.binding.engine import Engine
from hca.binding.engine_library import LIBRARY_PATH
from hca.contract.verbs import VerbsOpcode
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import Objects
from vgpu_sim.native.catalogue import INCLUDE

IDLE = (0, 500, 1000)
WRITES = 20_000
DEPTH = 1024
GOAL_TIMES = 1.2


def _median_ns(library: Path, idle: int, writer: ctypes.CDLL) -> float:
    engine, numbers = Engine(library), Numbers()
    ends = [Program(engine, numbers, index, 1 << 16, 1) for index in (0, 1)]
    pairs = [end.queue_pair(DEPTH) for end in ends]
    pairs[0].connect(pairs[1])
    pairs[1].connect(pairs[0])
    idle_programs = [Objects(engine, numbers, address_of(9).gids, 1 << 30) for _ in range(idle)]
    source = pairs[0]
    engine.suspend()  # the slots are filled, but none of them is a request yet
    for _ in range(len(source.slots)):
        source.post(VerbsOpcode.RDMA_WRITE, ends[1].key, 8, signaled=True)
    source.page.send_head = 0
    source.owner.page.dirty[source.index // 64] = 0
    engine.resume()
    took = (ctypes.c_uint64 * WRITES)()
    pages = (source.owner.page, source.page, source.owner.cq_page)
    bell = source.owner.objects.doorbell_fd
    writer.write_again(*map(ctypes.byref, pages), source.index, bell, WRITES, took)
    assert len(idle_programs) == idle
    return float(statistics.median(took))


def measure(library: Path = LIBRARY_PATH) -> Section:
    """Measure each number of idle programs, in a separate process. Raises OSError."""
    hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard_limit, 1 << 14), hard_limit))
    medians, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        flags = ("-O2", "-fPIC", "-shared", f"-I{INCLUDE}")
        built = compile_c("write_once.c", Path(folder) / "write_once.so", flags)
        for idle in IDLE:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(writing, str(_median_ns(library, idle, ctypes.CDLL(str(built)))).encode())
                os._exit(0)
            os.close(writing)
            with open(reading, "rb") as pipe:
                medians.append(float(pipe.read()))
            os.waitpid(child, 0)
            name = f"8-byte write, median beside {idle} idle programs"
            rows.append(Row("idle programs", name, medians[-1], "ns"))
    times = max(medians[1:]) / medians[0]
    rows.append(Row("idle programs", "times that without", times, "", GOAL_TIMES))
    return Section("idle programs", tuple(rows))


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, default=LIBRARY_PATH)
    options = parser.parse_args()
    print(machine(), flush=True)
    section = measure(options.library)
    print(table([section]))
    return int(any(row.verdict == "MISSED" for row in section.rows))


if __name__ == "__main__":
    sys.exit(main())
