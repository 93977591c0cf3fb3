"""Output and pages make one statement on the accuracy of users' kernels: that of the measurements."""

import re
from pathlib import Path

import pytest

from vgpu_sim.perf.kernels.accuracy import KERNELS, MEDIAN_PERCENT, STATEMENT

ROOT = Path(__file__).parents[3]
_PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
_KERNELS = re.compile(r"(your own|users?'s?|own) kernels?", re.IGNORECASE)
_DENIALS = re.compile(r"not compared|not measured|no prediction|never compared", re.IGNORECASE)


def read_words(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


@pytest.mark.parametrize(("name", "times"), [("README.md", 1), ("docs/performance-model.md", 2)])
def test_pages_repeat_the_statement(name: str, times: int) -> None:
    assert read_words(ROOT / name).lower().count(STATEMENT.lower()) == times


def test_the_statement_has_the_figures_of_the_comparison() -> None:
    text = (ROOT / "docs" / "silicon.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| all \| \d+, (\d+) \| \d+ % \| (\d+) % \|", text, re.MULTILINE)
    assert row == (str(KERNELS), str(MEDIAN_PERCENT))


def contradictions(text: str) -> list[str]:
    sentences = re.split(r"(?<=[.;:|])\s", text)
    return [one for one in sentences if _KERNELS.search(one) and _DENIALS.search(one)]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_no_page_denies_the_comparison(page: Path) -> None:
    assert contradictions(read_words(page)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Predicted times of your own kernels were not compared with any board:",
        "No prediction of a user's kernel was compared with a board;",
    ],
)
def test_a_denial_is_detected(text: str) -> None:
    assert contradictions(f"It runs. {text} More.")
