"""``python tests/support/prove_addresses.py FIRST END``: prove the clamp of random address kernels.

Prints each seed that is not shown to be safe, and what was done; exits 1 if there was one.
"""

import sys

import clamp_proof
import random_addresses

from vgpu_sim.exec import jit

_CASES: tuple[tuple[tuple[int, int, int], jit.Plan | None], ...] = (
    ((64, 1, 1), jit.Plan(16, 2)),
    ((64, 1, 1), jit.Plan(1, 1)),
    ((32, 4, 1), jit.Plan(16, 4)),
    ((7, 3, 1), jit.Plan(1, 1)),
    ((64, 1, 1), None),
)


def prove(seed: int) -> int:
    """Prove one seed's kernel; return how many accesses it has.

    Raises:
        clamp_proof.NotShown: for an access that is not shown to be safe.
    """
    module = random_addresses.kernel(seed)
    block, plan = _CASES[seed % len(_CASES)]
    return clamp_proof.prove(jit.Compiler().emit_llvm(module, module.functions[0], block, plan))


def main(first: int, end: int) -> int:
    accesses = failed = 0
    for seed in range(first, end):
        try:
            accesses += prove(seed)
        except clamp_proof.NotShown as error:
            failed += 1
            print(f"seed {seed}: {error}")
    print(f"{end - first} kernels, {accesses} accesses, {failed} kernels not shown to be safe")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
