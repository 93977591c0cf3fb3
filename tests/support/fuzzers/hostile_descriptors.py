"""``make fuzz descriptors=1 n=100000``: about n hostile tensor maps, descriptors and addresses.

The tests of each family draw them from a seed of their own; this runs the same tests with larger
numbers, and prints how many of each were drawn.
"""

import sys

from support.fuzzers.family_tests import run_family

# The variable of a test, its files, what one of its units draws, and the share of n.
_FAMILIES = (
    ("TESSERA_HOSTILE_MAPS", ("memory/test_conformance_hostile_tensor_maps.py",), 10, 0.4),
    ("TESSERA_HOSTILE_DESCRIPTORS", ("textures/test_conformance_hostile_descriptors.py",), 6, 0.2),
    ("TESSERA_HOSTILE_ADDRESSES", ("memory/test_conformance_hostile_addresses.py",), 13, 0.3),
    (
        "TESSERA_HOSTILE_TENSORS",
        ("values/test_conformance_tensor_memory.py", "values/test_conformance_tensor_pairs.py"),
        2,
        0.1,
    ),
)


def main(count: int) -> int:
    """Run all families; return 1 if one of them failed, else 0."""
    passed = [
        run_family(
            variable,
            max(60, round(count * share / of_unit)),
            of_unit,
            files,
            names="hostile or leaves",
            success="no access outside",
            timeout_s=7200,
        )
        for variable, files, of_unit, share in _FAMILIES
    ]
    return int(not all(passed))


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    sys.exit(main(int(given.get("n") or 10_000)))
