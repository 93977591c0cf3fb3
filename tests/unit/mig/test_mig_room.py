"""Room beside slices in use, fragmentation, and which slices to move for more room."""

import json
from collections import Counter
from typing import Any

import pytest
from click.testing import CliRunner

from mig import geometry, planner, pools
from mig.errors import MigError, SpecError
from mig.geometry import Board, Instance, Profile
from vgpu_sim.cli.main import main

BOARD = geometry.board("h100-80gb")


def places(text: str) -> tuple[Instance, ...]:
    found = (part.partition("@") for part in text.split(",") if part)
    return tuple(Instance(BOARD.profile(name), int(start)) for name, _, start in found)


def by_states(on: Board, held: tuple[Instance, ...], profile: Profile, packed: bool) -> int:
    """Count the devices that fit by searching all legal states."""
    there = Counter(i.profile for i in held)
    most = 0
    for state in planner.states(on):
        found = Counter(i.profile for i in state)
        rest = found - there if packed else Counter(i.profile for i in {*state} - {*held})
        fits = not there - found if packed else {*held} <= {*state}
        if fits and set(rest) <= {profile}:
            most = max(most, rest[profile])
    return most


@pytest.mark.parametrize("key", ["h100-80gb", "a30"])
def test_room_equals_that_in_the_list_of_states(key: str) -> None:
    on = geometry.board(key)
    for held in planner.states(on)[:: 1 if key == "a30" else 45]:
        for profile, one in planner.room(on, held).items():
            assert one.now == by_states(on, held, profile, packed=False)
            assert one.packed == by_states(on, held, profile, packed=True)
            assert one.now <= one.packed


@pytest.mark.parametrize(
    ("held", "lost"), [("", 0.0), ("1g.10gb@6", 0.0), ("1g.10gb@0,1g.10gb@4", 0.2)]
)
def test_fragmentation_is_the_room_that_moves_would_free(held: str, lost: float) -> None:
    rooms = planner.room(BOARD, places(held))
    assert planner.fragmentation(rooms) >= lost
    assert (planner.fragmentation(rooms) > 0) == (lost > 0)


def test_the_least_makes_room_and_it_does() -> None:
    for held in planner.states(BOARD)[::20]:
        for profile, one in planner.room(BOARD, held).items():
            found = planner.changes_to_fit(BOARD, held, profile)
            if found is None:
                with pytest.raises(MigError):
                    planner.plan(BOARD, (), [profile] * (one.now + 1))
                continue
            after = {*held} - {*found.disturbed} | {to for _, to in found.moves}
            assert planner.room(BOARD, after)[profile].now > one.now
            assert bool(found.moves) == (one.packed > one.now)


def part(start: int, inner: int, pod: str) -> dict[str, Any]:
    holders = [{"namespace": "team", "name": pod}] if pod else []
    return {"profile": "1c.3g.40gb", "start": start, "computeStart": inner, "holders": holders}


def gpu(name: str, *slices: tuple[str, int, str], pool: str = "p") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"board": "h100-80gb", "pool": pool},
        "status": {
            "slices": [
                {
                    "profile": profile,
                    "start": start,
                    "holders": [{"namespace": "team", "name": pod}] if pod else [],
                }
                for profile, start, pod in slices
            ]
        },
    }


SCATTERED = gpu("n1-gpu-0", ("1g.10gb", 2, "a"), ("1g.10gb", 5, "b"), ("1g.10gb", 6, ""))
DENSE = gpu("n2-gpu-0", *(("1g.10gb", i, f"d{i}") for i in range(7)))


def advise(document: Any, *arguments: str) -> Any:
    given = ["mig", "advise", *arguments]
    return CliRunner().invoke(main, given, input=json.dumps(document), prog_name="tessera")


def test_it_names_the_pods_to_move_and_prefers_moving_to_ending() -> None:
    found = advise({"items": [DENSE, SCATTERED]}, "--want", "3x3g.40gb", "--json")
    reported = json.loads(found.output)
    assert (reported["room"]["3g.40gb"], reported["divided"]) == ({"now": 0, "packed": 1}, 2)
    assert 0 < reported["fragmentation"] <= 1
    (advice,) = reported["advice"]
    moved, ended = advice["moves"]
    assert (moved["gpu"], len(moved["to"]), len(ended["to"])) == ("n1-gpu-0", 1, 0)
    assert {pod for one in moved["slices"] for pod in one["pods"]} < {"team/a", "team/b"}
    assert ended["gpu"] == "n2-gpu-0"
    assert advice["possible"] is False
    text = advise({"items": [DENSE, SCATTERED]}, "--want", "1x3g.40gb").output
    assert "move team/b (1g.10gb@5 of n1-gpu-0) to 1g.10gb@" in text


def test_narrow_devices_have_room_in_divided_gpu_instances_and_move_with_them() -> None:
    divided = gpu("n1-gpu-0")
    divided["status"]["slices"] = [part(0, 0, "a"), part(0, 1, "b"), part(4, 0, "")]
    reported = json.loads(advise({"items": [divided]}, "--want", "5x1c.3g.40gb", "--json").output)
    (advice,) = reported["advice"]
    assert (advice["now"], advice["possible"]) == (1 + 3, True)  # beside a and b, and at 4
    assert {pod for move in advice["moves"] for one in move["slices"] for pod in one["pods"]} == {
        "team/a",
        "team/b",
    }
    cost = json.loads(
        advise({"items": [divided]}, "--layout", "2x1c.3g.40gb,4g.40gb", "--json").output
    )["layout"]
    assert cost["pods"] == ["team/a", "team/b"]  # 4g.40gb has only one place
    kept = advise({"items": [divided]}, "--layout", "3x1c.3g.40gb,3g.40gb", "--json").output
    assert json.loads(kept)["layout"]["pods"] == []


def test_the_cost_of_a_layout_lists_destroyed_slices_and_their_pods() -> None:
    reported = json.loads(
        advise({"items": [DENSE, SCATTERED]}, "--layout", "3g.40gb,2x1g.10gb", "--json").output
    )["layout"]
    assert reported["as_it_is"] == 0
    assert len(reported["pods"]) >= 5
    assert "team/a" not in reported["pods"] or "team/b" not in reported["pods"]


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"items": 7}, "items"),
        ({"items": [{}]}, "items[0]"),
        ([], "items[0]"),
        ({"items": [gpu("g", ("9g.90gb", 0, ""))]}, "9g.90gb"),
        ({"items": [gpu("g", ("1g.10gb", 0, ""), ("3g.40gb", 0, ""))]}, "overlap"),
    ],
)
def test_an_invalid_gpu_document_is_refused_with_its_position(document: Any, word: str) -> None:
    found = advise(document)
    assert found.exit_code == 2
    assert word in found.output + found.stderr
    with pytest.raises((MigError, SpecError)):
        pools.read(document)


def test_eight_thousand_gpus_are_worked_out_kind_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    states = planner.states(BOARD)
    gpus = [
        pools.GpuState(f"g{i}", "p", BOARD, (), dict.fromkeys(states[i % 200], ("team/x",)))
        for i in range(8000)
    ]
    requested: list[object] = []
    room = planner.room
    monkeypatch.setattr(planner, "room", lambda *kind: requested.append(kind) or room(*kind))
    total = pools.room(gpus)
    assert len(requested) == 200
    assert total[BOARD.profile("1g.10gb")].packed >= total[BOARD.profile("1g.10gb")].now


def test_a_profile_with_an_x_in_its_name_is_no_count() -> None:
    one = gpu("n1-gpu-0", ("1g.24gb", 0, "a"))
    one["spec"]["board"] = "rtx-pro-6000"
    for text, count in (("1g.24gb+gfx", 1), ("2x1g.24gb+gfx", 2)):
        (advice,) = json.loads(advise({"items": [one]}, "--want", text, "--json").output)["advice"]
        assert (advice["profile"], advice["wanted"]) == ("1g.24gb+gfx", count)
