"""Publication of ResourceSlices: whole generations, no needless write, and again after a loss."""

import contextlib
import random
from collections.abc import Mapping
from typing import Any

import pytest

from device_plugin.dra.devices import Node
from device_plugin.dra.publication import generation, same
from device_plugin.dra.publisher import Publisher
from device_plugin.dra.slices import OfferedGpu, resource_slices
from device_plugin.errors import ClusterError
from device_plugin.inventory.model import Gpu
from mig import geometry
from support.worlds.slice_api import SliceApi

BOARD = geometry.board("h100-80gb")
NODE = Node("worker", "580.0.1", "13.0")
OWNERS = [{"apiVersion": "v1", "kind": "Node", "name": "worker", "uid": "n", "controller": True}]


def specs(count: int = 3, health: str = "Healthy", taken: int = 0) -> dict[str, dict[str, Any]]:
    profile = BOARD.profile("1g.10gb")
    places = tuple(geometry.Instance(profile, start) for start in range(taken))
    gpus = [Gpu(f"GPU-{i}", i, BOARD, health, ()) for i in range(count)]
    return resource_slices(NODE, [OfferedGpu(gpu, places) for gpu in gpus])


@pytest.fixture
def api() -> SliceApi:
    return SliceApi()


def make_publisher(api: SliceApi) -> Publisher:
    """Return a publisher that has listed the slices, and follows no later change."""
    publisher = Publisher(api, wait=lambda _: None)
    catch_up(api, publisher)
    return publisher


def catch_up(api: SliceApi, publisher: Publisher) -> None:
    api.end_watch()
    publisher._informer.follow()


def is_published(api: SliceApi, wanted: Mapping[str, Any]) -> bool:
    return api.slices.keys() == wanted.keys() and all(
        same(api.slices[name], spec, OWNERS) for name, spec in wanted.items()
    )


def test_slices_are_written_once_and_not_again_while_nothing_differs(api: SliceApi) -> None:
    publisher = make_publisher(api)
    publisher.offer(specs(health="Suspect: Xid 94"), OWNERS)
    publisher.publish()
    assert is_published(api, specs(health="Suspect: Xid 94"))
    assert api.generations == {1}
    before = list(api.calls)
    assert [verb for verb, _ in before] == ["apply"] * len(specs())
    publisher.publish()
    catch_up(api, publisher)
    publisher.offer(specs(health="Suspect: Xid 94"), OWNERS)
    publisher.publish()
    again = make_publisher(api)  # a new agent
    again.offer(specs(health="Suspect: Xid 94"), OWNERS)
    again.publish()
    assert api.calls == before


def test_a_change_is_a_new_generation_of_all_slices(api: SliceApi) -> None:
    publisher = make_publisher(api)
    publisher.offer(specs(), OWNERS)
    publisher.publish()
    publisher.offer(specs(taken=2), OWNERS)
    publisher.publish()
    assert is_published(api, specs(taken=2))
    assert api.generations == {2}


def test_slices_that_are_too_many_go_after_the_others_were_written(api: SliceApi) -> None:
    publisher = make_publisher(api)
    publisher.offer(specs(8), OWNERS)
    publisher.publish()
    api.calls.clear()
    publisher.offer(specs(1), OWNERS)
    publisher.publish()
    verbs = [verb for verb, _ in api.calls]
    assert verbs == sorted(verbs)
    assert is_published(api, specs(1))


def test_a_node_that_offers_nothing_any_more_has_no_slices(api: SliceApi) -> None:
    publisher = make_publisher(api)
    publisher.offer(specs(), OWNERS)
    publisher.publish()
    publisher.offer({}, OWNERS)
    publisher.publish()
    assert api.slices == {}


def test_slices_deleted_by_a_kubelet_are_written_again_with_a_higher_generation(
    api: SliceApi,
) -> None:
    publisher = make_publisher(api)
    publisher.offer(specs(), OWNERS)
    publisher.publish()
    for name in list(api.slices):
        api.lose(name)
    catch_up(api, publisher)
    publisher.publish()
    assert is_published(api, specs())
    assert api.generations == {2}


def test_a_single_slice_that_is_lost_is_added_to_its_generation(api: SliceApi) -> None:
    publisher = make_publisher(api)
    publisher.offer(specs(), OWNERS)
    publisher.publish()
    lost = list(api.slices)[1]
    api.lose(lost)
    catch_up(api, publisher)
    api.calls.clear()
    publisher.publish()
    assert api.calls == [("apply", lost)]
    assert api.generations == {1}


def test_a_new_node_object_becomes_the_owner(api: SliceApi) -> None:
    publisher = make_publisher(api)
    publisher.offer(specs(), OWNERS)
    publisher.publish()
    publisher.offer(specs(), [{**OWNERS[0], "uid": "another"}])
    publisher.publish()
    owners = [one["metadata"]["ownerReferences"][0]["uid"] for one in api.slices.values()]
    assert set(owners) == {"another"}


def test_nothing_is_written_before_the_first_list(api: SliceApi) -> None:
    publisher = Publisher(api, wait=lambda _: None)
    publisher.offer(specs(), OWNERS)
    publisher.publish()
    assert api.calls == []
    make_publisher(api).publish()  # a publisher without an offer deletes nothing
    assert api.calls == []


def test_failures_and_losses_in_between_end_in_one_whole_generation(api: SliceApi) -> None:
    """In any order of events, a pool that is complete equals one of the offers."""
    chance = random.Random(12)
    publisher = make_publisher(api)
    offers = [specs(2), specs(3, taken=1), specs(8, "Unhealthy: Xid 79"), specs(1), {}]
    wanted: dict[str, dict[str, Any]] = {}
    for _ in range(300):
        match chance.choice(("offer", "fail", "lose", "see", "publish", "restart")):
            case "offer":
                wanted = chance.choice(offers)
                publisher.offer(wanted, OWNERS)
            case "fail":
                api.fails = chance.randrange(3)
            case "lose" if api.slices:
                api.lose(chance.choice(list(api.slices)))
            case "see":
                catch_up(api, publisher)
            case "restart":
                publisher = make_publisher(api)
                publisher.offer(wanted, OWNERS)
            case "publish":
                with contextlib.suppress(ClusterError):
                    publisher.publish()
        newest = max(api.generations, default=0)
        current = [one for one in api.slices.values() if generation(one) == newest]
        if current and len(current) == current[0]["spec"]["pool"]["resourceSliceCount"]:
            there = {one["metadata"]["name"]: one for one in current}
            assert any(
                there.keys() == offer.keys()
                and all(same(there[name], spec, OWNERS) for name, spec in offer.items())
                for offer in offers
            )
    api.fails = 0
    catch_up(api, publisher)
    publisher.publish()
    assert is_published(api, wanted)
    assert len(api.generations) <= 1


def test_failures_are_reported_and_retried_ever_less_often(api: SliceApi) -> None:
    pauses: list[float] = []
    publisher = Publisher(api, wait=pauses.append)
    catch_up(api, publisher)
    publisher.offer(specs(), OWNERS)
    api.fails = 9
    for number in range(1, 10):
        publisher.attempt()
        assert ("etcd is away" in publisher.problem) == (number >= 3)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    publisher.attempt()
    assert publisher.problem == ""
    assert is_published(api, specs())


@pytest.mark.parametrize("field", ["consumesCounters", "taints", "sharedCounters"])
def test_a_cluster_that_drops_required_fields_gets_no_slices(api: SliceApi, field: str) -> None:
    api.drops = frozenset({field})
    publisher = make_publisher(api)
    publisher.offer(specs(health="Unhealthy: Xid 79"), OWNERS)
    publisher.attempt()
    assert "DRAPartitionableDevices" in publisher.problem
    assert api.slices == {}


def test_a_cluster_without_the_api_is_reported(api: SliceApi) -> None:
    def refuse() -> None:
        raise ClusterError("API server: 404 the server could not find the requested resource", 404)

    class Stop(Exception):
        pass

    rounds = iter(range(4))

    def wait(_: float) -> None:
        publisher.attempt()  # a later offer leads to another attempt
        if next(rounds) == 3:
            raise Stop

    api.list = refuse  # type: ignore[method-assign, assignment]
    publisher = Publisher(api, wait)
    publisher.offer(specs(), OWNERS)
    with pytest.raises(Stop):
        publisher.follow()
    assert "404" in publisher.problem
