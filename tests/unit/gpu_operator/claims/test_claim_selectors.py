"""Parsing of selectors: each supported form, each unsupported one, and each limit."""

import itertools

import pytest

from gpu_operator.api.claim_devices import ANY, ANY_MIG, DRIVER
from gpu_operator.controllers.claims.selectors import NOTHING, Facts, read_selectors
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
def test_a_term_is_parsed_if_its_form_is_supported(expression: str, facts: Facts) -> None:
    assert read_selectors([expression]) == facts


@pytest.mark.parametrize("parts", [*itertools.permutations([OURS, MIG, ONE, "true"])])
def test_conjunctions_combine_in_any_order_and_form(parts: tuple[str, ...]) -> None:
    expected = Facts(True, "mig", "1g.10gb")
    one, two, three, four = parts
    assert read_selectors(parts) == expected
    assert read_selectors([" && ".join(parts)]) == expected
    assert read_selectors([f"{one}&&({two} && ({three}) ) && {four}"]) == expected
    assert read_selectors([f"({one}) && ({two})", f"(({three} && {four}))"]) == expected
    assert read_selectors([f"({one} || {two}) && {three}", four]) == read_selectors([three, four])
    assert read_selectors([f"[{one} && {two}][0] && {three}", four]) == read_selectors(
        [three, four]
    )
    assert read_selectors([f"({one}) == ({two}) && {three}", four]) == read_selectors([three, four])


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
        ((MIG, GPU), ANY_MIG),  # the first one applies: no device matches both
        ((GPU, MIG), geometry.WHOLE_RESOURCE),
        ((f"device.attributes['{DRIVER}'].profile == '1g.10gb+me'",), "mig-1g.10gb.me"),
        ((f"device.attributes['{DRIVER}'].profile == 'other'",), f"{ANY_MIG}-other"),
        ((f"device.attributes['{DRIVER}'].type == 'other'",), ANY),
    ],
)
def test_devices_are_named_as_a_resource(expressions: tuple[str, ...], resource: str) -> None:
    assert read_selectors(expressions).resource == resource


def test_the_number_of_parsed_selectors_is_limited() -> None:
    assert read_selectors(["true"] * 7 + [MIG]) == Facts(True, "mig")
    assert read_selectors(["true"] * 8 + [MIG]) == NOTHING
    assert read_selectors([OURS, *["true"] * 8, MIG]) == Facts(True)


def test_a_long_expression_is_not_parsed() -> None:
    assert read_selectors([MIG.ljust(1024)]) == Facts(True, "mig")
    assert read_selectors([MIG.ljust(1025)]) == NOTHING
    assert read_selectors([MIG.ljust(1025), OURS]) == Facts(True)


def test_the_depth_of_parsed_parentheses_is_limited() -> None:
    assert read_selectors([f"{'(' * 8}{MIG}{')' * 8}"]) == Facts(True, "mig")
    assert read_selectors([f"{'(' * 9}{MIG}{')' * 9}"]) == NOTHING
    assert read_selectors([f"{'(' * 9}{MIG}{')' * 9} && {OURS}"]) == Facts(True)
