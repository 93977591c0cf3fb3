"""``make fuzz tensors=1 n=10000``: n random kernels of each family of tensor instructions.

The tests of each family draw shapes, types, flags and data from a seed of their own, and compare the
interpreter and the JIT with NumPy; this runs the same tests with larger numbers.
"""

import sys

from support.fuzzers.family_tests import run_family

# The variable of a test, its file, the names of its tests, and how many each of its units draws.
_FAMILIES = (
    ("TESSERA_WARPGROUP_PRODUCTS", "values/test_conformance_warpgroups.py", "random", 1),
    ("TESSERA_TENSOR_PRODUCTS", "values/test_conformance_tensor_products.py", "random", 1),
    ("TESSERA_CLUSTER_KERNELS", "threads/test_conformance_random_clusters.py", "random", 1),
    ("TESSERA_TENSOR_COPIES", "memory/test_conformance_tensor_copies.py", "loads or stores", 20),
)


def main(count: int) -> int:
    """Run all families; return 1 if one of them failed, else 0."""
    passed = [
        run_family(
            variable,
            max(1, round(count / of_unit)),
            of_unit,
            (file,),
            names=names,
            success="no difference",
            timeout_s=86_400,
        )
        for variable, file, names, of_unit in _FAMILIES
    ]
    return int(not all(passed))


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    sys.exit(main(int(given.get("n") or 100)))
