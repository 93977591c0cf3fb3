"""Quantities of memory as the API writes them."""

import pytest

from gpu_operator.api.v1alpha1 import quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("4Gi", 4 << 30),
        ("20096Mi", 20096 << 20),
        ("1.5Gi", 3 << 29),
        (".5Ki", 512),
        ("4G", 4 * 10**9),
        ("2k", 2000),
        ("4e9", 4 * 10**9),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1500m", 2),  # rounded up
        ("+1", 1),
    ],
)
def test_a_quantity_of_the_api(text: str, expected: int) -> None:
    assert quantity.parse_api_quantity(text) == expected


@pytest.mark.parametrize(
    "text", ["", "-1", "4 Gi", "4gb", "Gi", "1e", "1e999", "1" * 50, "1" * 99 + "Ei", "\u0664"]
)
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.parse_api_quantity(text)


@pytest.mark.parametrize("count", [0, 1, 1023, 1 << 10, 20096 << 20, 4 << 30, 3 << 40])
def test_formatted_quantities_can_be_parsed(count: int) -> None:
    assert quantity.parse_api_quantity(quantity.format_bytes(count)) == count


@pytest.mark.parametrize(
    ("text", "expected"), [("8Gi", 8 << 30), ("1.5Ki", 1536), ("9007199254740993", (1 << 53) + 1)]
)
def test_a_quantity_of_a_pool(text: str, expected: int) -> None:
    assert quantity.to_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "1G", "9" * 400, "0." + "9" * 400 + "Gi", "\u0664Gi", "1e3"])
def test_an_invalid_quantity_of_a_pool_is_refused(text: str) -> None:
    """Four hundred digits exceed the range of a float; this once raised OverflowError in every
    agent.
    """
    with pytest.raises(ValueError, match="not a memory quantity"):
        quantity.to_bytes(text)
