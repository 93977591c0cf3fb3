"""Fragmentation of a pool: a condition, gauges, and sums that are updated as GPUs change."""

import random
from dataclasses import replace
from typing import Any

from gpu_operator.app.object_metrics import ObjectCollector
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.pools import fragmentation, pool_book, pools
from gpu_operator.controllers.pools.fragmentation import RoomSum
from gpu_operator.kube.actions import Apply, Manager
from mig import planner
from support.worlds.driven_operator import CONFIG
from support.worlds.gpu_world import NOW, condition, gpu, mig_slice, node, pool, world

SCATTERED = [mig_slice("1g.10gb@0", "team/a"), mig_slice("1g.10gb@4", "team/b")]
PACKED = [mig_slice("1g.10gb@6", "team/a"), mig_slice("1g.10gb@5", "team/b")]


def decide(seen: World) -> Any:
    return pools.reconcile(seen, "p", CONFIG.node, "tessera-system", NOW).actions


def of(*slices: Any) -> World:
    return world(node(), pool(), gpu(have=slices))


def test_a_pool_reports_fragmentation() -> None:
    status, reason, message = condition(decide(of(*SCATTERED)), "Fragmented")
    assert (status, reason) == ("True", "Scattered")
    assert "tessera mig advise" in message
    assert condition(decide(of(*PACKED)), "Fragmented")[:2] == ("False", "Packed")
    assert condition(decide(of(mig_slice("1g.10gb@0"))), "Fragmented")[0] == "False"  # not held


def test_whole_gpus_have_no_fragmentation() -> None:
    for slices in ((mig_slice("whole@0", "team/a"),), ()):
        (write,) = (
            a for a in decide(of(*slices)) if isinstance(a, Apply) and a.manager is Manager.STATUS
        )
        kinds = {c["type"] for c in write.document["status"]["conditions"]}
        assert kinds == {"Accepted", "Ready", "Progressing", "Degraded"}


def test_sums_equal_those_of_all_gpus_after_any_history() -> None:
    chosen, total = random.Random(1), RoomSum()
    there: dict[str, fragmentation.Rooms] = {}
    choices = [of(*SCATTERED), of(*PACKED), of(mig_slice("3g.40gb@4", "team/c")), of()]
    for _ in range(200):
        name = f"g{chosen.randrange(6)}"
        seen = chosen.choice(choices)
        rooms = fragmentation.room_on(seen.gpus["n1-gpu-0"])
        total.put(name, rooms)
        there[name] = rooms
        now = {p: sum(r[p].now for r in there.values() if r) for r in there.values() for p in r}
        assert {profile: one.now for profile, one in total.rooms.items()} == now


def test_a_deleted_gpu_s_room_is_removed() -> None:
    seen = of(*SCATTERED)
    book = pool_book.make_book(seen, "p")
    assert planner.fragmentation(book.room.rooms) > 0
    book.note_gpu("n1-gpu-0", None, live=False)
    assert book.room.rooms == {}


def test_an_unknown_board_has_no_room_and_raises_no_error() -> None:
    one = gpu(have=SCATTERED)
    strange = replace(one, spec=one.spec.model_copy(update={"board": "h9000"}))
    assert fragmentation.room_on(strange) == {}


def test_each_pool_has_gauges() -> None:
    seen = of(*SCATTERED)
    rooms = {"p": pool_book.make_book(seen, "p").room.rooms}
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in ObjectCollector(lambda: seen, lambda: rooms).collect()
        for sample in family.samples
    }
    lost = found["tessera_gpupool_fragmentation_ratio", "p"]
    assert lost == planner.fragmentation(rooms["p"])
    assert found["tessera_gpupool_room_slices", "p", "3g.40gb", "false"] == 0
    assert found["tessera_gpupool_room_slices", "p", "3g.40gb", "true"] == 1
