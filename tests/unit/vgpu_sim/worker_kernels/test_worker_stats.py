"""The worker's counters of launches, by worked examples with a clock that the test sets."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from vgpu_sim.native import build, catalogue
from vgpu_sim.worker.runtime.records import StatsRecord

ROOT = Path(__file__).parents[4]
HARNESS = ROOT / "tests/support/native/worker_harness/clocked_stats.c"
ALL = 1 << 16


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stats")
    flags = ["-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-pthread"]
    folders = [f"-I{catalogue.RUNTIME}", f"-I{catalogue.INCLUDE}"]
    output = folder / "clocked_stats.so"
    subprocess.run([build.compiler(), *flags, *folders, str(HARNESS), "-o", output], check=True)
    return output


class Clocked:
    """The statistics of one worker, with a clock that the test sets."""

    def __init__(self, program: Path) -> None:
        self._library = ctypes.CDLL(str(program))
        for name, types in {
            "clocked_at": (ctypes.c_uint64, ctypes.c_uint32),
            "clocked_launch": (ctypes.c_uint64, *[ctypes.c_uint32] * 4),
            "tw_launch_begins": (ctypes.c_uint64,),
            "tw_launch_computes": (ctypes.c_uint64,),
            "tw_launch_ends": (ctypes.c_uint64,),
        }.items():
            getattr(self._library, name).argtypes = types

    def launch(
        self,
        handle: int,
        *,
        runner: int = 0,
        blocks: int = 2,
        threads: int = 32,
        shared: int = 0,
        pipe: int = ALL // 2,
    ) -> None:
        """Describe a runner's next launch: at least two blocks, and at least eight threads per
        block.
        """
        self._library.clocked_at(0, runner)
        self._library.clocked_launch(handle, blocks // 2, threads // 8, shared, pipe)

    def begins(self, now_ns: int, handle: int, runner: int = 0) -> None:
        """Begin a launch; handle 0 stands for a kernel that is still being compiled."""
        self._library.clocked_at(now_ns, runner)
        self._library.tw_launch_begins(handle)

    def computes(self, now_ns: int, handle: int, runner: int = 0) -> None:
        """Begin the computation of a launch, after its compilation."""
        self._library.clocked_at(now_ns, runner)
        self._library.tw_launch_computes(handle)

    def ends(self, now_ns: int, blocks: int = 2, runner: int = 0) -> None:
        """End a launch."""
        self._library.clocked_at(now_ns, runner)
        self._library.tw_launch_ends(blocks)

    def read(self, now_ns: int) -> StatsRecord:
        """Return the statistics."""
        self._library.clocked_at(now_ns, 0)
        record = StatsRecord()
        self._library.tessera_worker_get_stats(ctypes.byref(record))
        return record

    def last_account(self) -> tuple[int, ...]:
        """Return the last launch's counts for its kernel: handle, blocks, nanoseconds."""
        found = (ctypes.c_uint64 * 3)()
        self._library.clocked_accounted(found)
        return tuple(found)


@pytest.fixture
def clocked_library(program: Path, tmp_path: Path) -> Clocked:
    """A copy of the library for each test, because its state is global to the process."""
    own = tmp_path / "own.so"
    own.write_bytes(program.read_bytes())
    return Clocked(own)


def times(record: StatsRecord) -> tuple[int, int]:
    return record.busy_ns, record.computed_ns


def test_a_worker_without_a_launch_has_counted_nothing_at_any_time(
    clocked_library: Clocked,
) -> None:
    for now in (0, 1, 1 << 60):
        record = clocked_library.read(now)
        assert times(record) == (0, 0)
        assert (record.launches, record.first_launch_ns, record.last_launch_ns) == (0, 0, 0)
        assert (record.running_kernel, record.running_since_ns) == (0, 0)
        assert record.set_bytes == 77  # copies are counted independently


def test_a_compilation_is_busy_and_computes_nothing(clocked_library: Clocked) -> None:
    clocked_library.launch(9)
    clocked_library.begins(1_000, 0)
    compiling = clocked_library.read(1_300)
    assert times(compiling) == (300, 0)
    assert compiling.running_kernel == 0
    clocked_library.computes(1_600, 9)
    assert times(clocked_library.read(1_600)) == (600, 0)
    running = clocked_library.read(1_700)
    assert times(running) == (700, 100)
    assert (running.running_kernel, running.running_since_ns) == (9, 1_600)
    assert running.running_name == b"kernel 9"
    clocked_library.ends(2_000)
    assert clocked_library.last_account() == (9, 2, 400)
    for now in (2_000, 2_001, 9_000):  # neither grows while nothing runs
        record = clocked_library.read(now)
        assert times(record) == (1_000, 400), now
        assert (record.first_launch_ns, record.last_launch_ns) == (1_000, 2_000)
        assert (record.launches, record.running_kernel) == (1, 0)


def test_launches_side_by_side_are_busy_once_and_active_each(clocked_library: Clocked) -> None:
    # Half of the multiprocessors, 1 in 32.
    clocked_library.launch(1, runner=0, blocks=2, threads=32)
    clocked_library.launch(2, runner=5, blocks=4, threads=16, pipe=ALL // 4)
    clocked_library.begins(10_000, 1, 0)
    clocked_library.begins(10_400, 2, 5)
    both = clocked_library.read(10_800)
    assert times(both) == (800, 800)
    assert both.sm_active_ns == 800 // 2 + 400 // 4
    assert both.sm_occupancy_ns == 800 // 32 + 400 // 16
    assert list(both.pipe_ns)[:2] == [400 // 2 + 100 // 4, 400 // 8 + 100 // 8]
    assert both.running_kernel == 1  # the kernel that has run longer
    clocked_library.ends(11_200, 2, 0)
    one = clocked_library.read(11_600)
    assert times(one) == (1_600, 1_600)
    assert one.sm_active_ns == 1_200 // 2 + 1_200 // 4
    assert (one.running_kernel, one.running_since_ns) == (2, 10_400)
    clocked_library.ends(12_000, 4, 5)
    record = clocked_library.read(50_000)
    assert times(record) == (2_000, 2_000)
    assert record.sm_active_ns == 1_200 // 2 + 1_600 // 4
    assert record.sm_occupancy_ns == 1_200 // 32 + 1_600 // 16
    assert (record.blocks, record.threads) == (6, 2 * 32 + 4 * 16)
    assert (record.launches, record.last_launch_ns) == (2, 12_000)
    clocked_library.begins(60_000, 1, 0)  # the idle time between them does not count
    assert times(clocked_library.read(60_007)) == (2_007, 2_007)
    assert clocked_library.read(60_007).first_launch_ns == 10_000


def test_the_oldest_is_found_wherever_its_runner_stands(clocked_library: Clocked) -> None:
    for runner, since in ((3, 500), (1, 700), (6, 300)):
        clocked_library.launch(runner, runner=runner)
        clocked_library.begins(since, runner, runner)
    for expected in (6, 3, 1):
        record = clocked_library.read(1_000)
        assert (record.running_kernel, record.running_name) == (
            expected,
            f"kernel {expected}".encode(),
        )
        clocked_library.ends(1_000, 2, expected)
    assert clocked_library.read(1_000).running_kernel == 0


@pytest.mark.parametrize(
    "other",
    [
        {"handle": 8},
        {"blocks": 4},
        {"threads": 16},
        {"shared": 1},
    ],
    ids=str,
)
def test_a_launch_that_differs_in_one_thing_is_described_anew(
    clocked_library: Clocked, other: dict[str, int]
) -> None:
    """A runner's last launch is identified by a key of four parts."""
    first = {"handle": 7, "blocks": 2, "threads": 32, "shared": 0}
    second = {**first, **other}
    clocked_library.launch(**first, pipe=ALL)
    active, occupied, piped = 0, 0, 0
    for turn, (launch, share) in enumerate([(second, 4), (first, 2)]):
        clocked_library.launch(**launch, pipe=ALL // share)
        clocked_library.begins(100 + 10_000 * turn, 7)
        clocked_library.ends(6_500 + 10_000 * turn)
        found = clocked_library.read(9_000 + 10_000 * turn)
        active += 6_400 // launch["blocks"]
        occupied += 6_400 // launch["threads"]
        piped += 6_400 // launch["blocks"] // share
        assert (found.sm_active_ns, found.sm_occupancy_ns) == (active, occupied)
        assert found.pipe_ns[0] == piped


def test_a_launch_like_the_last_one_is_described_by_it(clocked_library: Clocked) -> None:
    clocked_library.launch(7, pipe=ALL)
    clocked_library.launch(7, pipe=ALL // 4)
    clocked_library.begins(100, 7)
    assert clocked_library.read(6_500).pipe_ns[0] == 3_200


def test_a_clock_that_is_behind_takes_nothing_away(clocked_library: Clocked) -> None:
    """A reader's time may precede the start of the launch that it finds."""
    clocked_library.launch(4)
    clocked_library.begins(5_000, 4)
    for now in (4_000, 5_000):
        record = clocked_library.read(now)
        assert (*times(record), record.sm_active_ns) == (0, 0, 0)
    assert times(clocked_library.read(5_001)) == (1, 1)
