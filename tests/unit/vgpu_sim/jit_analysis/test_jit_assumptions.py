"""The list of assumptions of a kernel's fast version, and the fallback of each."""

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.analysis.assumptions import (
    Chosen,
    Extended,
    Fallback,
    Family,
    OfAccess,
    OfGroup,
    Row,
    Summed,
)
from vgpu_sim.exec.jit.planning import forms, versions
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.isa import Module

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"


def _module(name: str) -> Module:
    return compile_ptx((_KERNELS / f"{name}.ptx").read_text(), capability=(9, 0))


@pytest.mark.parametrize(
    ("name", "geometry", "kinds"),
    [
        ("vecadd", Geometry((256, 1, 1), 16, 4), {}),
        ("life", Geometry((32, 8, 1), 16, 16), {Chosen: 4, Extended: 3}),
        ("halo_stencil", Geometry((32, 8, 1), 16, 16), {Chosen: 8, Summed: 2, Extended: 1}),
        ("sgemm_tiled", Geometry((16, 16, 1), 16, 4), {Row: 2}),
        ("sgemm_register", Geometry((16, 16, 1), 16, 4), {Family: 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_assumptions_are_listed_and_have_fallbacks(
    name: str, geometry: Geometry, kinds: dict[type, int]
) -> None:
    """The fallbacks in the text are those in the list: groups once, each access by itself."""
    module = _module(name)
    form = forms.build(module.functions[0], geometry.block, best=True)
    found = list(
        versions.assumptions_of(versions.analyse_fast_version(form, geometry, versioned=True))
    )
    assert Counter(map(type, found)) == kinds
    plan = jit.Plan(geometry.width, geometry.vectors)
    text = jit.Compiler().emit_llvm(module, module.functions[0], geometry.block, plan)
    entry = text[text.index("@entry(") :].split("\n}\n")[0]
    fallbacks = Counter(one.fallback for one in found)
    assert ("\nrestart:" in entry) == (Fallback.LANES in fallbacks)
    assert ("\nmasked:" in entry) >= (Fallback.MASKS in fallbacks)  # guards branch there, too
    assert entry.count("\napart") == fallbacks[Fallback.APART]


def test_groups_start_over_and_accesses_do_not() -> None:
    assert {kind.fallback for kind in get_args(OfGroup)} == {Fallback.MASKS, Fallback.LANES}
    assert {kind.fallback for kind in get_args(OfAccess)} == {Fallback.APART}


def test_groups_that_others_wait_for_do_not_start_over() -> None:
    """After a barrier, others may have observed a group's effects: its accesses fall back
    instead.
    """
    form = forms.build(_module("sgemm_tiled").functions[0], (16, 16, 1), best=True)
    alone = versions.analyse_fast_version(form, Geometry((16, 16, 1), 16, 16), versioned=True)
    together = versions.analyse_fast_version(form, Geometry((16, 16, 1), 16, 4), versioned=True)
    assert [type(one) for one in versions.assumptions_of(alone)] == [Extended] * 3
    assert not together.assumptions


def test_explain_prints_the_list() -> None:
    rows = [
        shown
        for name, shown in jit.explain(_module("life").functions[0], (32, 8, 1))
        if name == "assumes"
    ]
    assert rows == [
        "4 times: all lanes take the same operand of a choice; else the group starts over, with masks",
        "3 times: an index that is extended to 64 bits does not wrap around; else the group starts"
        " over, lane by lane",
    ]
