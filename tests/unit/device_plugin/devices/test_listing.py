"""The time at which a slice that has left one of the kubelet's lists may join another."""

from device_plugin.agent.listing import SETTLE_S, Listing
from device_plugin.inventory.model import MigSlice
from device_plugin.inventory.resources import OfferedResources
from mig import geometry

BOARD = geometry.board("h100-80gb")
ONE = MigSlice("MIG-1", "GPU-0", BOARD.instance("1g.10gb", 0), 1, 0, 1, "/run/1", 0, ())
OLD, NEW = OfferedResources({"MIG-1": "a/mig-1g.10gb"}), OfferedResources({"MIG-1": "a/gpu"})


def test_a_slice_joins_a_list_after_the_kubelet_showed_whose_it_is() -> None:
    """Time alone is not enough: a List may hang for longer, and a pod may have the slice."""
    now, seen = [100.0], [100.0]
    listing = Listing(lambda: seen[0], lambda: now[0])
    listing.record(OLD, {"MIG-1"})
    assert listing.find_leaving(NEW, [ONE]) == {"MIG-1"}
    listing.unlist({"MIG-1"}, NEW)
    now[0] += 10 * SETTLE_S
    assert listing.find_unlisted(NEW, [ONE]) == {"MIG-1"}, "the kubelet has not answered since"
    seen[0] += SETTLE_S - 0.1
    assert listing.find_unlisted(NEW, [ONE]) == {"MIG-1"}
    seen[0] += 0.1
    assert not listing.find_unlisted(NEW, [ONE])
    assert listing.current_resources(NEW, [ONE]) == NEW
