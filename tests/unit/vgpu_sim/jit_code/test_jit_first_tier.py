"""The kernels that begin in narrow code, at each limit and one beyond it, and the reasons given."""

import re

import pytest

from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.planning import choose, code_size, forms, tiers
from vgpu_sim.exec.jit.planning.explain import explain
from vgpu_sim.isa import Module

BLOCK = (128, 1, 1)
BITS = 512


def _kernel(meeting: str) -> Module:
    steps = "".join(f"mad.lo.u32 %v, %v, %t, {n}; xor.b32 %v, %v, %u;" for n in range(40))
    return compile_verified(
        kernel(
            f"""ld.param.u64 %d, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4;
            add.u64 %d, %d, %o; ld.global.u32 %v, [%d]; mov.u32 %u, %v; {meeting} {steps}
            st.global.u32 [%d], %v;""",
            ".param .u64 p",
            registers=".reg .b64 %d, %o; .reg .b32 %t, %v, %u;",
        )
    )


ALONE = _kernel("")
MEETING = _kernel("shfl.sync.bfly.b32 %u, %v, 1, 31, -1;")
SEEN = _kernel("activemask.b32 %u;")


def _decide(module: Module) -> tuple[jit.Plan | None, str, jit.Plan]:
    """Return the first tier's plan, the reason for it, and the best plan."""
    function = module.functions[0]
    plan, why = tiers.first_tier_plan(forms.build(function, BLOCK, best=False), BLOCK, BITS)
    return plan, why, choose.choose(forms.build(function, BLOCK, best=True), BLOCK, BITS)


def _nodes(module: Module) -> int:
    return code_size.nodes_of(forms.build(module.functions[0], BLOCK, best=False))


def _limit(monkeypatch: pytest.MonkeyPatch, alone: int, meeting: int, plain: int = 0) -> None:
    monkeypatch.setattr(code_size, "MAX_NODE_VECTORS", alone)
    monkeypatch.setattr(code_size, "MAX_WARP_NODE_VECTORS", meeting)
    monkeypatch.setattr(code_size, "MAX_PLAIN_WARP_NODE_VECTORS", plain)


@pytest.mark.parametrize("module", [MEETING, SEEN])
def test_with_collectives_the_first_tier_has_the_limit_of_the_best_plan(
    module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their limit is higher than that of other kernels: the best plan is wide code with passes."""
    nodes = _nodes(module)
    _limit(monkeypatch, nodes - 1, 2 * nodes)
    plan, why, best = _decide(module)
    assert plan == jit.Plan(16, 2, versioned=False, tier=0)
    assert (best.width, best.vectors, best.tier) == (16, 2, 1)
    assert why == f"{nodes} nodes: narrow code without passes runs until the best code is ready"


def test_with_collectives_a_group_that_is_too_large_is_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = _nodes(MEETING)
    _limit(monkeypatch, nodes - 1, 2 * nodes - 1)
    plan, why, best = _decide(MEETING)
    assert (plan, best.tier) == (None, 0)
    assert why == f"{nodes} nodes: lanes wait for each other, and a whole warp is too much code"


@pytest.mark.parametrize("vectors", [1, 2], ids=["a vector is too large", "a warp is too large"])
def test_large_code_with_collectives_is_a_warp_without_passes(
    vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = _nodes(MEETING)
    _limit(monkeypatch, nodes - 1, vectors * nodes - 1, 2 * nodes)
    plan, _, best = _decide(MEETING)
    assert (plan, best) == (None, jit.Plan(16, 2, versioned=False, tier=0))
    _limit(monkeypatch, nodes - 1, vectors * nodes - 1, 2 * nodes - 1)
    plan, _, best = _decide(MEETING)
    assert (plan, best.width, best.vectors, best.tier) == (None, 1, 1, 0)


@pytest.mark.parametrize("module", [ALONE, MEETING, SEEN])
def test_at_the_limit_and_one_beyond(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, meets = _nodes(module), module is not ALONE
    monkeypatch.setattr(tiers, "_TRIED", 99)
    _limit(monkeypatch, 1 if meets else nodes, nodes if meets else 1)
    _, why, best = _decide(module)
    assert "already" not in why
    assert best.tier == (0 if meets else 1)  # no group of whole warps is small enough
    _limit(monkeypatch, 1 if meets else nodes - 1, nodes - 1 if meets else 1)
    plan, why, best = _decide(module)
    assert plan is None
    assert why == f"{nodes} nodes: the best plan is already a narrow one without passes"
    assert (best.vectors, best.tier) == (1, 0)
    assert best.width <= 4


@pytest.mark.parametrize("module", [ALONE, MEETING])
def test_many_basic_blocks_are_the_reason(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "MAX_MASKED_BLOCKS", 0)
    plan, why, best = _decide(module)
    assert plan is None
    assert re.fullmatch("[0-9]+ basic blocks: the best plan is already lane by lane", why)
    assert (best.width, best.vectors) == (1, 1)


def test_the_real_limits_are_near_matrix_kernels() -> None:
    assert (code_size.MAX_NODE_VECTORS, code_size.MAX_WARP_NODE_VECTORS) == (8_000, 32_000)
    assert code_size.MAX_PLAIN_WARP_NODE_VECTORS == 128_000


def test_explanations_match_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = _nodes(MEETING)
    _limit(monkeypatch, nodes - 1, 4 * nodes)
    rows = dict(explain(MEETING.functions[0], BLOCK))
    narrow = jit.Compiler().compile_first_tier(MEETING, MEETING.functions[0], BLOCK)
    assert narrow is not None
    shown = (
        f"{narrow.plan.vectors} vectors of {narrow.plan.width} lanes: {nodes} nodes: narrow code"
    )
    assert rows["first tier"].startswith(shown)
    best = jit.Compiler().compile_uncached(MEETING, MEETING.functions[0], BLOCK)
    assert rows["vector"] == f"{best.plan.width} lanes"
