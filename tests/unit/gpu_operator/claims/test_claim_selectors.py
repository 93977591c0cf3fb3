"""What is read of selectors: each shape, each place at which nothing is read, and each limit."""

import itertools

import pytest

from gpu_operator.api.claim_devices import ANY, ANY_MIG, DRIVER
from gpu_operator.controllers.claims.selectors import NOTHING, Facts, read
from mig import geometry

OURS = f'device.driver == "{DRIVER}"'
MIG = f'device.attributes["{DRIVER}"].type == "mig"'
GPU = f'device.attributes["{DRIVER}"].type == "gpu"'
ONE = f'device.attributes["{DRIVER}"].profile == "1g.10gb"'
MEMORY = f"device.capacity[\"{DRIVER}\"].memory.compareTo(quantity('9Gi')) > 0"
PROFILE = "mig-1g.10gb"


@pytest.mark.parametrize(
    ("expression", "facts"),
    [
        (OURS, Facts(True)),
        (f"device.driver=='{DRIVER}'", Facts(True)),
        (f"'{DRIVER}' == device.driver", Facts(True)),
        (f'"{DRIVER}"   ==device.driver', Facts(True)),
        (MIG, Facts(True, "mig")),
        (GPU, Facts(True, "gpu")),
        (ONE, Facts(True, "", "1g.10gb")),
        (f"device.attributes['{DRIVER}']['profile'] == 'x'", Facts(True, "", "x")),
        (f"'x' == device.attributes['{DRIVER}'].profile", Facts(True, "", "x")),
        (f"'mig' == device.attributes['{DRIVER}'][\"type\"]", Facts(True, "mig")),
        (f"'b' == device.attributes['{DRIVER}'].board", Facts(True)),
        (MEMORY, Facts(True)),
        (f"device.attributes['{DRIVER}'].profile != '1g.10gb'", Facts(True)),
        (f"device.attributes['{DRIVER}'].profile == '{'x' * 63}'", Facts(True, "", "x" * 63)),
        (f"device.attributes['{DRIVER}'].profile == '{'x' * 64}'", Facts(True)),
        (f"device.driver != '{DRIVER}'", NOTHING),
        (f"device.driver == '{DRIVER}.org'", NOTHING),
        ("device.attributes['nic.example.org'].type == 'mig'", NOTHING),
        ("true", NOTHING),
        ("", NOTHING),
        (f"!({OURS})", NOTHING),
        (f"{OURS} || true", NOTHING),
        (f"true ? {OURS} : {OURS}", NOTHING),
        (f"{OURS} // {MIG}", NOTHING),
        (f'"\\"" == "" && {OURS}', NOTHING),
        (f'r"x" == "x" && {OURS}', NOTHING),
        (f'"""x""" == "x" && {OURS}', NOTHING),
        (f"{OURS} && (", NOTHING),
        (f"{OURS})", NOTHING),
        (f"){OURS}(", NOTHING),
    ],
)
def test_a_part_is_read_as_far_as_it_is_plain(expression: str, facts: Facts) -> None:
    assert read([expression]) == facts


@pytest.mark.parametrize("parts", [*itertools.permutations([OURS, MIG, ONE, "true"])])
def test_parts_that_hold_together_add_up_in_any_order_and_form(parts: tuple[str, ...]) -> None:
    expected = Facts(True, "mig", "1g.10gb")
    one, two, three, four = parts
    assert read(parts) == expected
    assert read([" && ".join(parts)]) == expected
    assert read([f"{one}&&({two} && ({three}) ) && {four}"]) == expected
    assert read([f"({one}) && ({two})", f"(({three} && {four}))"]) == expected
    assert read([f"({one} || {two}) && {three}", four]) == read([three, four])
    assert read([f"[{one} && {two}][0] && {three}", four]) == read([three, four])
    assert read([f"({one}) == ({two}) && {three}", four]) == read([three, four])


@pytest.mark.parametrize(
    ("expressions", "resource"),
    [
        ((), ""),
        (("true",), ""),
        ((OURS,), ANY),
        ((MIG,), ANY_MIG),
        ((GPU,), geometry.WHOLE_RESOURCE),
        ((ONE,), PROFILE),
        ((MIG, ONE), PROFILE),
        ((MIG, GPU), ANY_MIG),  # the first that is said: none is let through
        ((GPU, MIG), geometry.WHOLE_RESOURCE),
        ((f"device.attributes['{DRIVER}'].profile == '1g.10gb+me'",), "mig-1g.10gb.me"),
        ((f"device.attributes['{DRIVER}'].profile == 'other'",), f"{ANY_MIG}-other"),
        ((f"device.attributes['{DRIVER}'].type == 'other'",), ANY),
    ],
)
def test_devices_are_named_as_a_resource(expressions: tuple[str, ...], resource: str) -> None:
    assert read(expressions).resource == resource


def test_only_so_many_selectors_are_read() -> None:
    assert read(["true"] * 7 + [MIG]) == Facts(True, "mig")
    assert read(["true"] * 8 + [MIG]) == NOTHING
    assert read([OURS, *["true"] * 8, MIG]) == Facts(True)


def test_of_a_long_expression_nothing_is_read() -> None:
    assert read([MIG.ljust(1024)]) == Facts(True, "mig")
    assert read([MIG.ljust(1025)]) == NOTHING
    assert read([MIG.ljust(1025), OURS]) == Facts(True)


def test_only_so_many_parentheses_are_looked_into() -> None:
    assert read([f"{'(' * 8}{MIG}{')' * 8}"]) == Facts(True, "mig")
    assert read([f"{'(' * 9}{MIG}{')' * 9}"]) == NOTHING
    assert read([f"{'(' * 9}{MIG}{')' * 9} && {OURS}"]) == Facts(True)
