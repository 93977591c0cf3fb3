"""Candidate plans: the JIT chooses the first one without a reason against it."""

from pathlib import Path

import pytest

from vgpu_sim import compiler
from vgpu_sim.exec.jit.planning import choose, forms
from vgpu_sim.exec.jit.planning.candidates import Candidate
from vgpu_sim.exec.jit.planning.plan import Block

EXAMPLES = Path(__file__).parents[4] / "examples"


def candidates_of(name: str, block: Block, bits: int = 256) -> list[Candidate]:
    """Return the candidates for the first kernel of an example, on vectors of ``bits``."""
    text = (EXAMPLES / f"{name}.ptx").read_bytes()
    (function, *_) = compiler.compile_ptx(text, capability=(9, 0), name=name).functions
    return list(choose.list_candidates(forms.build(function, block, best=True), block, bits))


@pytest.mark.parametrize("block", [(256, 1, 1), (16, 16, 1), (33, 3, 1), (1, 1, 1)])
@pytest.mark.parametrize("name", ["saxpy", "vecadd", "tiled_sgemm"])
def test_every_candidate_but_the_last_is_rejected(name: str, block: Block) -> None:
    """No plan is listed twice, and the search ends with the chosen one."""
    *rejected, chosen = candidates_of(name, block)
    assert all(one.against for one in rejected)
    assert not chosen.against
    assert chosen.why
    assert len({one.plan for one in (*rejected, chosen)}) == len(rejected) + 1


def test_a_copy_gains_nothing_from_more_vectors() -> None:
    """The widest group comes first; two vectors hide the step from one group to the next."""
    *rejected, chosen = candidates_of("saxpy", (256, 1, 1))
    assert [one.plan.vectors for one in rejected] == [16, 8, 4]
    assert {one.against for one in rejected} == {"it only streams: more vectors gain nothing"}
    assert (chosen.plan.width, chosen.plan.vectors) == (8, 2)


def test_missing_registers_are_counted() -> None:
    """The reason against a group is a number, not a judgement."""
    rejected = [one.against for one in candidates_of("sgemm", (256, 1, 1), 512)[:-1]]
    assert rejected == ["a hot loop has 32 live vectors, 4 too many"]
