"""What launches and module loads cost a C program on a slice."""

import tempfile
from pathlib import Path

from benchmarks import on_slice
from benchmarks.compile_c import CLIENT_FLAGS, compile_c
from benchmarks.report import Row, Section

NAME = "latency"
LIBRARIES = on_slice.REPOSITORY / "vgpu_sim" / "native" / "lib"
PTX = on_slice.REPOSITORY / "examples" / "sgemm.ptx"
KERNEL = "sgemm"


def build(output: Path) -> Path:
    """Compile the client. Raises CompilerMissing."""
    return compile_c("latency.c", output, CLIENT_FLAGS, f"-L{LIBRARIES}", "-lcuda")


def rows(section: str, output: str, prefix: str = "") -> tuple[Row, ...]:
    """Read what the client printed, in the table's words and units."""
    p50, p99 = {}, {}
    for line in output.splitlines():
        name, *figures = line.split()
        p50[name], p99[name] = float(figures[0]), float(figures[1])

    def both(name: str, title: str, goal_us: float) -> tuple[Row, Row]:
        return (
            Row(section, f"{prefix}{title}, p50", p50[name], "us", goal_us),
            Row(section, f"{prefix}{title}, p99", p99[name], "us"),
        )

    return (
        *both("launch", "asynchronous launch", 2),
        *both("launch_sync", "launch + sync", 15),
        *both("launch_sync_idle", "launch + sync after 1 ms idle", 60),
        Row(section, f"{prefix}cached module load, p50", p50["load"] / 1000, "ms", 0.5),
        Row(section, f"{prefix}cached module load, p99", p99["load"] / 1000, "ms"),
        Row(section, f"{prefix}first load of a process", p50["first_load"] / 1000, "ms"),
        Row(section, f"{prefix}context", p50["context"] / 1000, "ms"),
    )


def measure() -> Section:
    """Run the client twice on a slice; the second run finds its module in the cache."""
    with tempfile.TemporaryDirectory() as name:
        client = build(Path(name) / "latency")
        twice = f'"{client}" "{PTX}" {KERNEL} > /dev/null && "{client}" "{PTX}" {KERNEL}'
        return Section(NAME, rows(NAME, on_slice.run(["sh", "-c", twice])))
