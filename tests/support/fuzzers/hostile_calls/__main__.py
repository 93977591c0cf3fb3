"""Run hostile calls: ``make fuzz hostile=1 seed=1 n=100000 minutes=30``. It needs a slice."""

import os
import sys

from support.fuzzers.hostile_calls.campaign import run
from vgpu_sim.native import build


def main() -> None:
    """Run a campaign with the arguments of the command line."""
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    seed, calls = int(given.get("seed") or 1), int(given.get("n") or 100_000)
    seconds = 60 * float(given.get("minutes") or "inf")
    report = run(os.environ, build.LIBRARIES, seed, calls, seconds=seconds)
    print(f"seed {seed}: {report.calls} calls by {report.processes} processes")
    print("callers that ended by a signal:", dict(report.crashes.most_common()))
    for example in report.examples.values():
        print(" ", example)
    for defect in report.defects:
        print("defect:", defect)
    raise SystemExit(bool(report.defects))


if __name__ == "__main__":
    main()
