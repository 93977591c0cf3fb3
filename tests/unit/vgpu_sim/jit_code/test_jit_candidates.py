"""Plans that the JIT considers: the first that nothing speaks against is the one that it takes."""

from pathlib import Path

import pytest

from vgpu_sim import compiler
from vgpu_sim.exec.jit.planning import choose, forms
from vgpu_sim.exec.jit.planning.candidates import Candidate
from vgpu_sim.exec.jit.planning.plan import Block

EXAMPLES = Path(__file__).parents[4] / "examples"


def considered(name: str, block: Block, bits: int = 256) -> list[Candidate]:
    """Return what is considered for the first kernel of an example, on vectors of ``bits``."""
    text = (EXAMPLES / f"{name}.ptx").read_bytes()
    (function, *_) = compiler.compile_ptx(text, capability=(9, 0), name=name).functions
    return list(choose.considered(forms.build(function, block, best=True), block, bits))


@pytest.mark.parametrize("block", [(256, 1, 1), (16, 16, 1), (33, 3, 1), (1, 1, 1)])
@pytest.mark.parametrize("name", ["saxpy", "vecadd", "tiled_sgemm"])
def test_every_plan_but_the_last_has_something_against_it(name: str, block: Block) -> None:
    """No plan is considered twice, and the search ends with the one that is taken."""
    *rejected, chosen = considered(name, block)
    assert all(one.against for one in rejected)
    assert not chosen.against
    assert chosen.why
    assert len({one.plan for one in (*rejected, chosen)}) == len(rejected) + 1


def test_a_copy_gains_nothing_from_more_strips() -> None:
    """The widest group comes first; two strips hide the step from one group to the next."""
    *rejected, chosen = considered("saxpy", (256, 1, 1))
    assert [one.plan.strips for one in rejected] == [16, 8, 4]
    assert {one.against for one in rejected} == {"it only streams: more strips gain nothing"}
    assert (chosen.plan.width, chosen.plan.strips) == (8, 2)


def test_registers_that_are_short_are_counted() -> None:
    """What speaks against a group is its figure, not a verdict."""
    rejected = [one.against for one in considered("sgemm", (256, 1, 1), 512)[:-1]]
    assert rejected == ["a hot loop has 32 live vectors, 4 too many"]
