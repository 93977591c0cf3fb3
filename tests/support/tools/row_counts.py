"""Compares predictions for generated kernels with the whole grid in the interpreter.

usage: python -m support.tools.row_counts [--kernels N] [--first SEED] [--long]. Prints
deviations and a summary.
"""

import argparse

from support.kernels.exact_counts import compare
from support.kernels.generated_kernels import generate
from vgpu_sim.perf.kernels import chip_of

WITHIN = 0.1


def main() -> None:
    """Compare, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--long", action="store_true", help="longer loops and larger grids")
    parser.add_argument("--words", type=int, default=30_000, help="that a sample executes")
    options = parser.parse_args()
    chip = chip_of("h100-80gb")
    errors, bounds, counters = [], 0, 0
    for seed in range(options.first, options.first + options.kernels):
        comparison = compare(chip, generate(seed, long=options.long), options.words)
        counters += bool(comparison.wrong)
        if comparison.found.is_bound:
            bounds += 1
            print(
                f"{comparison.kernel.name}: a bound, {comparison.found.us:.3f}, exact {comparison.exact.us:.3f}"
            )
            good = comparison.found.us <= comparison.exact.us * (1 + WITHIN)
        else:
            errors.append(comparison.error)
            good = comparison.error <= WITHIN
        if comparison.wrong or not good:
            print(
                f"{comparison.kernel.name}: {comparison.found.us:.3f} us, exact {comparison.exact.us:.3f}"
            )
            print(f"  {comparison.wrong} {comparison.off(0.05)}", flush=True)
    within = sum(error <= WITHIN for error in errors)
    print(
        f"{options.kernels} kernels: counters wrong in {counters}, a bound {bounds},"
        f" within {WITHIN:.0%} {within} of {len(errors)}, largest error {max(errors):.2%}"
    )


if __name__ == "__main__":
    main()
