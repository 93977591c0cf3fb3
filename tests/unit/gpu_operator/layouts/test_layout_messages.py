"""How many GPUs and pods a layout's message names, and how it counts the others."""

from types import SimpleNamespace
from typing import Any

import pytest

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.layouts import report
from gpu_operator.controllers.layouts.assessment import GpuAssessment, State

GROUP = (State.WAITING, Reason.SLICE_IN_USE)
OTHER = (State.PENDING, Reason.SLICE_IN_USE)


def book(count: int, others: int = 0) -> Any:
    """Return a book with this many GPUs in one group, and others in another group."""
    judgements = [
        GpuAssessment(SimpleNamespace(name=f"gpu-{n}"), *GROUP, f"waits for {n}")  # type: ignore[arg-type]
        for n in range(count)
    ]
    return SimpleNamespace(
        first=lambda groups, most: judgements[:most] if GROUP in groups else [],
        groups=SimpleNamespace(count={GROUP: count, OTHER: others}.__getitem__),
    )


@pytest.mark.parametrize(
    ("count", "others", "more"), [(1, 0, 0), (5, 0, 0), (6, 0, 1), (7, 0, 2), (5, 1, 1), (6, 2, 3)]
)
def test_five_gpus_are_named_and_the_others_counted(count: int, others: int, more: int) -> None:
    found = report._describe_first(book(count, others), [GROUP, OTHER], "")
    assert found is not None
    reason, message = found
    assert reason is Reason.SLICE_IN_USE
    named = [f"gpu-{n}: waits for {n}" for n in range(min(count, 5))]
    assert message.split("; ") == [*named, *([f"and {more} more"] if more else [])]


def test_no_gpu_yields_no_message() -> None:
    assert report._describe_first(book(0), [GROUP], "") is None
