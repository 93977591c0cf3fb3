"""The pure decision of the node agent, over every pair of legal layouts of a board."""

import dataclasses

from device_plugin.agent.steps import plan_steps
from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry, planner

BOARD = geometry.board("h100-80gb")


def gpu_with(*instances: geometry.Instance, contexts: int = 0) -> Gpu:
    slices = tuple(
        MigSlice(f"MIG-{i}", "GPU-0", i, 1, 0, 1, f"/run/{i}", contexts, ()) for i in instances
    )
    return Gpu("GPU-0", 0, BOARD, "Healthy", slices)


def place(text: str, start: int) -> geometry.Instance:
    return geometry.Instance(BOARD.profile(text), start)


def test_empty_gpu_creates_everything() -> None:
    steps = plan_steps(gpu_with(), [("3g.40gb", 4), ("2g.20gb", 0)], ())
    assert [str(i) for i in steps.create] == ["2g.20gb@0", "3g.40gb@4"]
    assert not steps.withdraw
    assert not steps.settled


def test_slice_in_use_is_withdrawn_but_not_destroyed_and_blocks_its_place_only() -> None:
    gpu = gpu_with(place("1g.10gb", 0), place("1g.10gb", 6))
    steps = plan_steps(gpu, [("4g.40gb", 0), ("1g.10gb", 6), ("1g.10gb", 5)], releasable=())
    assert [str(s.instance) for s in steps.withdraw] == ["1g.10gb@0"]
    assert steps.destroy == ()
    assert [str(i) for i in steps.create] == ["1g.10gb@5"]


def test_released_slice_makes_room_at_once() -> None:
    gpu = gpu_with(place("1g.10gb", 0))
    steps = plan_steps(gpu, [("4g.40gb", 0)], releasable={"MIG-1g.10gb@0"})
    assert [str(s.instance) for s in steps.destroy] == ["1g.10gb@0"]
    assert [str(i) for i in steps.create] == ["4g.40gb@0"]


def test_illegal_wish_is_a_problem_and_touches_nothing() -> None:
    gpu = gpu_with(place("1g.10gb", 0))
    for wish in ([("4g.40gb", 1)], [("9g.90gb", 0)], [("4g.40gb", 0), ("3g.40gb", 0)]):
        steps = plan_steps(gpu, wish, releasable={"MIG-1g.10gb@0"})
        assert steps.problem
        assert steps.withdraw == steps.destroy == ()
        assert steps.create == ()


def test_every_layout_is_reached_from_every_maximal_one() -> None:
    layouts = planner.maximal_states(BOARD)[::7]
    for have in layouts:
        for want in layouts:
            gpu = gpu_with(*have)
            wish = [(i.profile.name, i.start) for i in want]
            for _ in range(3):
                steps = plan_steps(gpu, wish, releasable={s.uuid for s in gpu.slices})
                if steps.settled:
                    break
                left = [s.instance for s in gpu.slices if s not in steps.destroy]
                planner.check(BOARD, [*left, *steps.create])
                gpu = gpu_with(*left, *steps.create)
            assert {s.instance for s in gpu.slices} == set(want)


def test_untouched_slices_stay() -> None:
    kept = place("3g.40gb", 4)
    gpu = gpu_with(kept, place("1g.10gb", 0))
    steps = plan_steps(gpu, [("3g.40gb", 4)], releasable={s.uuid for s in gpu.slices})
    assert dataclasses.asdict(gpu.slices[0])["uuid"] not in [s.uuid for s in steps.destroy]
