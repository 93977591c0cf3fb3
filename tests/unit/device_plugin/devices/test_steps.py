"""The steps that the node agent plans, over every pair of legal layouts of a board."""

import dataclasses

from device_plugin.agent.steps import plan_steps
from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry, planner
from mig.spec import Place

BOARD = geometry.board("h100-80gb")


def gpu_with(*instances: geometry.Instance, contexts: int = 0) -> Gpu:
    slices = tuple(
        MigSlice(f"MIG-{i}", "GPU-0", i, 1, 0, 1, f"/run/{i}", contexts, ()) for i in instances
    )
    return Gpu("GPU-0", 0, BOARD, "Healthy", slices)


def place(text: str, start: int) -> geometry.Instance:
    return geometry.Instance(BOARD.profile(text), start)


def test_empty_gpu_creates_everything() -> None:
    steps = plan_steps(gpu_with(), [Place("3g.40gb", 4), Place("2g.20gb", 0)], ())
    assert [str(i) for i in steps.create] == ["2g.20gb@0", "3g.40gb@4"]
    assert not steps.withdraw
    assert not steps.settled


def test_slice_in_use_is_withdrawn_but_not_destroyed_and_blocks_its_place_only() -> None:
    gpu = gpu_with(place("1g.10gb", 0), place("1g.10gb", 6))
    steps = plan_steps(
        gpu, [Place("4g.40gb", 0), Place("1g.10gb", 6), Place("1g.10gb", 5)], releasable=()
    )
    assert [str(s.instance) for s in steps.withdraw] == ["1g.10gb@0"]
    assert steps.destroy == ()
    assert [str(i) for i in steps.create] == ["1g.10gb@5"]


def test_released_slice_makes_room_at_once() -> None:
    gpu = gpu_with(place("1g.10gb", 0))
    steps = plan_steps(gpu, [Place("4g.40gb", 0)], releasable={"MIG-1g.10gb@0"})
    assert [str(s.instance) for s in steps.destroy] == ["1g.10gb@0"]
    assert [str(i) for i in steps.create] == ["4g.40gb@0"]


def test_an_illegal_request_is_a_problem_and_changes_nothing() -> None:
    gpu = gpu_with(place("1g.10gb", 0))
    for request in (
        [Place("4g.40gb", 1)],
        [Place("9g.90gb", 0)],
        [Place("4g.40gb", 0), Place("3g.40gb", 0)],
    ):
        steps = plan_steps(gpu, request, releasable={"MIG-1g.10gb@0"})
        assert steps.problem
        assert steps.withdraw == steps.destroy == ()
        assert steps.create == ()


def test_every_layout_is_reached_from_every_maximal_one() -> None:
    layouts = planner.maximal_states(BOARD)[::7]
    for have in layouts:
        for want in layouts:
            gpu = gpu_with(*have)
            request = [planner.place_of(i) for i in want]
            for _ in range(3):
                steps = plan_steps(gpu, request, releasable={s.uuid for s in gpu.slices})
                if steps.settled:
                    break
                left = [s.instance for s in gpu.slices if s not in steps.destroy]
                planner.check(BOARD, [*left, *steps.create])
                gpu = gpu_with(*left, *steps.create)
            assert {s.instance for s in gpu.slices} == set(want)


def test_untouched_slices_stay() -> None:
    kept = place("3g.40gb", 4)
    gpu = gpu_with(kept, place("1g.10gb", 0))
    steps = plan_steps(gpu, [Place("3g.40gb", 4)], releasable={s.uuid for s in gpu.slices})
    assert dataclasses.asdict(gpu.slices[0])["uuid"] not in [s.uuid for s in steps.destroy]


def claimed_slice(instance: geometry.Instance) -> MigSlice:
    (made,) = gpu_with(instance).slices
    claim = "claim:33333333-3333-4333-8333-333333333333"
    return dataclasses.replace(made, owner=claim, owner_name="team/job")


def test_a_claim_s_slice_stays_and_free_places_are_used() -> None:
    theirs = claimed_slice(place("1g.10gb", 3))
    gpu = dataclasses.replace(gpu_with(), slices=(theirs,))
    steps = plan_steps(gpu, [Place("3g.40gb", 0), Place("3g.40gb", 4)], {theirs.uuid})
    assert (steps.withdraw, steps.destroy) == ((), ())
    assert [str(i) for i in steps.create] == ["3g.40gb@4"]
    assert steps.claimed == (theirs,)
    assert not steps.settled


def test_a_claims_slice_is_not_the_one_that_a_layout_wants_there() -> None:
    theirs = claimed_slice(place("1g.10gb", 3))
    gpu = dataclasses.replace(gpu_with(), slices=(theirs,))
    steps = plan_steps(gpu, [Place("1g.10gb", 3)], ())
    assert (steps.create, steps.claimed) == ((), (theirs,))


def test_a_gpu_beside_whose_claims_all_fits_is_settled() -> None:
    theirs = claimed_slice(place("1g.10gb", 3))
    gpu = dataclasses.replace(gpu_with(), slices=(theirs, *gpu_with(place("3g.40gb", 4)).slices))
    assert plan_steps(gpu, [Place("3g.40gb", 4)], ()).settled


def test_devices_in_one_gpu_instance_come_and_go_one_by_one() -> None:
    kept, gone = (BOARD.instance("1c.3g.40gb", 4, at) for at in (0, 2))
    gpu = gpu_with(kept, gone)
    request = [Place("1c.3g.40gb", 4, 0), Place("2c.3g.40gb", 0, 0), Place("1c.3g.40gb", 4, 1)]
    steps = plan_steps(gpu, request, releasable=())
    assert [str(s.instance) for s in steps.withdraw] == ["1c.3g.40gb@4.2"]
    assert [str(i) for i in steps.create] == ["2c.3g.40gb@0.0", "1c.3g.40gb@4.1"]
    # An instance that needs the whole GPU instance waits until all of its parts are gone.
    whole = [Place("3g.40gb", 4)]
    assert plan_steps(gpu, whole, {f"MIG-{gone}"}).create == ()
    freed = plan_steps(gpu, whole, {f"MIG-{kept}", f"MIG-{gone}"})
    assert [str(i) for i in freed.create] == ["3g.40gb@4"]


def test_an_incomplete_or_contradictory_place_is_a_problem() -> None:
    for request in (Place("1c.3g.40gb", 4), Place("3g.40gb", 4, 0), Place("2c.3g.40gb", 4, 1)):
        assert str(request.profile) in plan_steps(gpu_with(), [request], ()).problem
