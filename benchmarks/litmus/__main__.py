"""``python -m benchmarks.litmus [--runs N] [--only TEST]...``: litmus tests on a whole slice.

A number is in how many runs the weak outcome of a test occurred; f marks the accesses with which
PTX forbids it. Exit status: 0 no forbidden outcome occurred and SB's weak twin was shown, else 1.
"""

import argparse
import json
import sys
from collections.abc import Iterable

from benchmarks import on_slice
from benchmarks.litmus import proxies
from benchmarks.litmus.shapes import SCOPES, SHAPES
from benchmarks.litmus.verdicts import ASYNC, Count, Counts, is_violated, strengths, table
from benchmarks.report import machine

Found = dict[tuple[str, str], dict[str, Count]]
TESTS = [
    *((shape.name, scope) for shape in SHAPES for scope in SCOPES),
    *((reader.name, ASYNC) for reader in proxies.READERS),
]


def measure(tests: Iterable[tuple[str, str]], runs: int, seed: int, limit_s: float) -> Found:
    """Return the counts of each test by its strengths. Raises ProgramFailed."""
    named = [f"{name}/{scope}/{s}" for name, scope in tests for s in strengths(name)]
    client = [sys.executable, "-m", "benchmarks.litmus.client"]
    counts_by_test: Found = {}
    for line in on_slice.run([*client, str(runs), str(seed), str(limit_s), *named]).splitlines():
        name, scope, strength, *counts = json.loads(line)
        counts_by_test.setdefault((name, scope), {})[strength] = Count(*counts)
    return counts_by_test


def is_shown(counts: Counts) -> bool:
    """Return whether the weak outcome occurred at all."""
    return any(count.weak for count in counts.values())


def main() -> int:
    """Run the chosen tests and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.litmus", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="of each test and strength")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=5, help="more seconds for evidence")
    parser.add_argument("--only", action="append", help="tests or scopes (default: all)")
    options = parser.parse_args()
    chosen = [test for test in TESTS if not options.only or set(test) & set(options.only)]
    if not chosen:
        parser.error(f"tests: {', '.join(sorted({part for test in TESTS for part in test}))}")
    counts_by_test = measure(chosen, options.runs, options.seed, options.limit)
    print(f"{machine()}\n{table(counts_by_test)}")
    showable = [counts_by_test[test] for test in chosen if test in (("SB", "gpu"), ("SB", "sys"))]
    is_weakness_shown = all(is_shown(counts) for counts in showable) or on_slice.cores() == 1
    return (
        1
        if any(is_violated(test[0], counts_by_test[test]) for test in counts_by_test)
        or not is_weakness_shown
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
