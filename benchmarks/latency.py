"""Cost of launches and module loads for a C program on a slice."""

import statistics
import tempfile
from pathlib import Path

from benchmarks import on_slice
from benchmarks.compile_c import CLIENT_FLAGS, compile_c
from benchmarks.report import Row, Section

NAME = "latency"
LIBRARIES = on_slice.REPOSITORY / "vgpu_sim" / "native" / "lib"
PTX = on_slice.REPOSITORY / "examples" / "sgemm.ptx"
KERNEL = "sgemm"
_PROCESSES = 15
_RESTED = "rested"
_REST_S = 0.5


def build(output: Path) -> Path:
    """Compile the client. Raises CompilerMissing."""
    return compile_c("latency.c", output, CLIENT_FLAGS, f"-L{LIBRARIES}", "-lcuda")


def script(client: str, ptx: str) -> str:
    """Return shell commands: processes that load a module once, in immediate succession and with a
    pause before each, then one that measures everything.
    """
    once = f"'{client}' '{ptx}' {KERNEL}"
    return (
        f"for i in $(seq {1 + _PROCESSES}); do {once} load || exit 1; done; echo {_RESTED};"
        f" for i in $(seq {_PROCESSES}); do sleep {_REST_S}; {once} load || exit 1; done; {once}"
    )


def rows(section: str, output: str, prefix: str = "", sync_goal_us: float = 2) -> tuple[Row, ...]:
    """Parse the clients' output into rows; in a pod a synchronous launch has another goal."""
    p50, p99 = {}, {}
    first_loads, contexts = busy = [], []
    rested: tuple[list[float], list[float]] = [], []
    for line in output.splitlines():
        name, *figures = line.split()
        if name == _RESTED:
            first_loads, contexts = rested
            continue
        p50[name], p99[name] = float(figures[0]), float(figures[1])
        if name == "first_load":
            first_loads.append(p50[name])
        elif name == "context":
            contexts.append(p50[name])

    def both(name: str, title: str, goal_us: float) -> tuple[Row, Row]:
        return (
            Row(section, f"{prefix}{title}, p50", p50[name], "us", goal_us),
            Row(section, f"{prefix}{title}, p99", p99[name], "us"),
        )

    first_loads, contexts = busy
    first_load_ms = statistics.median(first_loads[1:]) / 1000  # the first load fills the cache
    rested_ms = [statistics.median(samples[:_PROCESSES]) / 1000 for samples in rested]
    return (
        *both("launch", "asynchronous launch", 0.5),
        *both("launch_sync", "launch + sync", sync_goal_us),
        *both("launch_sync_idle", "launch + sync after 1 ms idle", 60),
        *both("replay_1", "launch of a graph with 1 node", 3.3),
        *both("replay_100", "launch of a graph with 100 nodes", 33),
        *both("pool_allocation", "allocation from a pool", 0.5),
        *both("pool_free", "free to a pool", 0.5),
        *both("event_record", "event record", 0.1),
        *both("event_query", "event query", 0.1),
        Row(section, f"{prefix}module load, again in a process", p50["load"] / 1000, "ms", 0.5),
        Row(section, f"{prefix}module load, cached, new process", first_load_ms, "ms", 0.5),
        Row(section, f"{prefix}module load, not cached", first_loads[0] / 1000, "ms"),
        Row(section, f"{prefix}module load, cached, new process, rested", rested_ms[0], "ms", 0.5),
        Row(section, f"{prefix}new context", statistics.median(contexts) / 1000, "ms", 12),
        Row(section, f"{prefix}new context, rested", rested_ms[1], "ms", 5),
    )


def measure() -> Section:
    """Run the clients on a slice. Raises ProgramFailed, CompilerMissing."""
    with tempfile.TemporaryDirectory() as name:
        client = build(Path(name) / "latency")
        # A separate cache, or "not cached" would depend on previous runs.
        environment = {"XDG_CACHE_HOME": str(Path(name) / "cache")}
        command = ["sh", "-c", script(str(client), str(PTX))]
        return Section(NAME, rows(NAME, on_slice.run(command, environment)))
