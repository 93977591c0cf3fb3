"""``python -m benchmarks.silicon.values record|run|compare``; see docs/silicon.md."""

import argparse
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run one step. ``run`` needs no other part of Tessera."""
    parser = argparse.ArgumentParser(prog="benchmarks.silicon.values", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    record = steps.add_parser("record", help="write the cases to a folder")
    record.add_argument("folder", type=Path)
    record.add_argument("--captured", type=Path, help="cases of benchmarks.silicon.values.capture")
    record.add_argument(
        "--known", type=Path, nargs="*", default=[], help="results whose outputs need not return"
    )
    record.add_argument("--corpus", type=Path, help="a folder of PTX that is only loaded")
    record.add_argument("--only", default="", help="cases whose group contains this text")
    run = steps.add_parser("run", help="run the cases on the first GPU")
    run.add_argument("folder", type=Path)
    run.add_argument("output", type=Path)
    run.add_argument("--seconds", type=float, default=170)
    run.add_argument("--processes", type=int, default=16)
    run.add_argument("--each-seconds", type=float, default=6)
    run.add_argument("--new", action="store_true", help="only cases without known outputs")
    compare = steps.add_parser("compare", help="print how two archives of results differ")
    compare.add_argument("folder", type=Path)
    compare.add_argument("gpu", type=Path)
    compare.add_argument("tessera", type=Path, nargs="+")
    compare.add_argument("--details", type=Path, help="a file for each difference")
    options = parser.parse_args(arguments)
    if options.step == "run":
        from benchmarks.silicon.values import runner

        runner.run(
            options.folder,
            options.output,
            options.seconds,
            options.processes,
            options.each_seconds,
            options.new,
        )
    elif options.step == "record":
        from benchmarks.silicon.values import recording

        recording.record(
            options.folder, options.captured, options.corpus, options.known, options.only
        )
    else:
        from benchmarks.silicon.values import comparison

        comparison.compare(options.folder, options.gpu, options.tessera, options.details)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
