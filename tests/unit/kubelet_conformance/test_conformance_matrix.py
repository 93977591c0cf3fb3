"""The table of results, written and read again, and the resource names that a kubelet accepts."""

import pytest

from kubelet_conformance import matrix
from kubelet_conformance.kubelet import is_extended_resource


def result(check: str, outcome: str, reason: str = "") -> dict[str, str]:
    return {"check": check, "outcome": outcome, "reason": reason}


def test_the_table_has_results_and_reasons_by_plugin() -> None:
    reports = {
        "one": [result("test_registers", "passed"), result("test_list", "failed", "a < b | c")],
        "two": [result("test_registers", "skipped", "not tried")],
    }
    text = matrix.table(reports)
    assert text.endswith("\n\n1. not tried\n2. a &lt; b \\| c\n")
    assert matrix.answers(text) == {
        "one": {"test_registers": "yes", "test_list": "no"},
        "two": {"test_registers": "–", "test_list": ""},
    }


def test_every_check_has_a_row_of_its_own() -> None:
    rows = list(matrix.checks().values())
    assert len(set(rows)) == len(rows)
    assert all(row.endswith(".") for row in rows)


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.10gb.shared", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("sub.kubernetes.io/gpu", False),
        ("Nvidia.com/gpu", False),
        ("nvidia.com/", False),
        ("nvidia.com/a/b", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_names_of_extended_resources(name: str, taken: bool) -> None:
    assert is_extended_resource(name) is taken
