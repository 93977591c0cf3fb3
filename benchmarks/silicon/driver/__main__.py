"""``python -m benchmarks.silicon.driver``: record answers on a GPU, and compare two recordings."""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.silicon.driver import compare, groups, record, shards


def parse() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.silicon.driver", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, text in (("record", "ask the GPU of this machine"), ("run", "ask a simulated GPU")):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--out", type=Path, required=True, help="a .tar.gz")
        verb.add_argument("--only", action="append", choices=groups.GROUPS)
        verb.add_argument("--within-s", type=float, default=600.0)
        verb.add_argument("--processes", type=int, default=2)
        verb.add_argument("--board", default="h100-80gb")
    verb = verbs.add_parser("compare", help="list the differences between two recordings")
    verb.add_argument("recordings", type=Path, nargs=2)
    verb.add_argument("--only", action="append", choices=groups.GROUPS)
    verb.add_argument("--all", action="store_true", help="every example")
    verb = verbs.add_parser("answer", help="answer a part of a group in this process")
    for name in ("group", "part", "skip", "path"):
        verb.add_argument(name)
    return parser.parse_args()


def main() -> int:
    """Exit status: 0 recorded, or no difference; 1 differences."""
    options = parse()
    if options.verb == "answer":
        group = groups.load(options.group)
        path, skip = Path(options.path), int(options.skip)
        names = shards.remaining(group.questions())
        return shards.answer(names, group.ask, options.part, skip, path)
    if options.verb == "compare":
        return compare.main(*options.recordings, options.only or list(groups.GROUPS), options.all)
    chosen = options.only or list(groups.GROUPS)
    if options.verb == "record":
        return record.main(options.out, chosen, options.within_s, options.processes)
    own = [sys.executable, "-m", "benchmarks.silicon.driver", "record", "--out", str(options.out)]
    own += [f"--only={name}" for name in chosen]
    own += [f"--within-s={options.within_s}", f"--processes={options.processes}"]
    command = ["tessera", "run", "--board", options.board, "--", *own]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
