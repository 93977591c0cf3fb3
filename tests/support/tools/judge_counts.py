"""Judges predictions of generated kernels by the whole grid in the interpreter.

usage: python -m support.tools.judge_counts [--kernels N] [--first SEED] [--long]. Prints what is off, and a summary.
"""

import argparse

from support.kernels.exact_counts import judge
from support.kernels.generated_kernels import generate
from vgpu_sim.perf.kernels import chip_of

WITHIN = 0.1


def main() -> None:
    """Judge, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--long", action="store_true", help="longer loops and larger grids")
    parser.add_argument("--words", type=int, default=30_000, help="that a sample executes")
    options = parser.parse_args()
    chip = chip_of("h100-80gb")
    errors, bounds, counters = [], 0, 0
    for seed in range(options.first, options.first + options.kernels):
        judged = judge(chip, generate(seed, long=options.long), options.words)
        counters += bool(judged.wrong)
        if judged.found.is_bound:
            bounds += 1
            print(
                f"{judged.kernel.name}: a bound, {judged.found.us:.3f}, exact {judged.exact.us:.3f}"
            )
            good = judged.found.us <= judged.exact.us * (1 + WITHIN)
        else:
            errors.append(judged.error)
            good = judged.error <= WITHIN
        if judged.wrong or not good:
            print(f"{judged.kernel.name}: {judged.found.us:.3f} us, exact {judged.exact.us:.3f}")
            print(f"  {judged.wrong} {judged.off(0.05)}", flush=True)
    within = sum(error <= WITHIN for error in errors)
    print(
        f"{options.kernels} kernels: counters wrong in {counters}, a bound {bounds},"
        f" within {WITHIN:.0%} {within} of {len(errors)}, largest error {max(errors):.2%}"
    )


if __name__ == "__main__":
    main()
