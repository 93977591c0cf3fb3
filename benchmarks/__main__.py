"""``python -m benchmarks [--only SECTION] [--json]``: every goal with its figure and verdict."""

import argparse
import subprocess
import sys
from collections.abc import Callable

from benchmarks import cluster, idle, latency, planner, sampling, sharing, throughput
from benchmarks.compile_c import CompilerMissing
from benchmarks.on_slice import ProgramFailed
from benchmarks.report import Section, document, machine, table

SECTIONS: dict[str, Callable[[], Section]] = {
    throughput.NAME: throughput.measure,
    latency.NAME: latency.measure,
    idle.NAME: idle.measure,
    planner.NAME: planner.measure,
    sampling.NAME: sampling.measure,
    sharing.NAME: sharing.measure,
    cluster.NAME: cluster.measure,
}


def run(name: str) -> Section:
    """Measure one section; a section that cannot be measured contains the reason."""
    try:
        return SECTIONS[name]()
    except (CompilerMissing, ProgramFailed, subprocess.CalledProcessError, OSError) as err:
        return Section(name, skipped=str(err))


def main() -> int:
    """Exit status: 0 all goals met, 1 a goal is missed or could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="sections (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    where = machine()
    if not options.json:
        print(where, flush=True)
    sections = [run(name) for name in options.only or SECTIONS]
    print(document(sections) if options.json else table(sections))
    failed = any(row.verdict == "MISSED" for section in sections for row in section.rows)
    broken = any(section.skipped and section.name != cluster.NAME for section in sections)
    return 1 if failed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
