"""The reasons for which functions are not supported, on the pages of libraries."""

import pytest

from vgpu_sim.clients.codegen.library import Page
from vgpu_sim.clients.codegen.reasons import unsupported_lines


def page(**reasons: str) -> Page:
    return Page("page.md", "title", "cu([A-Z][a-z]+)", "CUDA", "", "", reasons)


def test_functions_are_grouped_by_the_first_reason_that_matches() -> None:
    given = page(**{"cuGL.*": "no graphics", "cu.*Sync": "no semaphores"})
    assert unsupported_lines(["cuGLSync", "cuGLInit", "cuEGLSync"], given) == [
        "- no graphics: `cuGLInit`, `cuGLSync`",
        "- no semaphores: `cuEGLSync`",
    ]


def test_a_function_without_a_reason_is_an_error() -> None:
    """A pattern has to match the whole name."""
    with pytest.raises(ValueError, match="no reason why cuGLInitAll is not supported"):
        unsupported_lines(["cuGLInitAll"], page(cuGLInit="no graphics"))


def test_without_reasons_functions_are_grouped_by_noun() -> None:
    assert unsupported_lines(["cuMemB", "cuMemA"], page()) == ["- Mem: `cuMemA`, `cuMemB`"]
