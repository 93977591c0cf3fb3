"""Placement of devices narrower than their GPU instance.

The board's rules place a GPU instance without regard to its division. So narrow devices are
placed in two steps: first GPU instances, the fewest of each profile that hold all requested
devices of that profile, as ``nvidia-mig-parted`` packs them, then the devices in the compute
slices of those. Free compute slices of GPU instances that are already divided are used first.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, groupby

from mig.geometry import Board, ComputePlace, ComputeProfile, DeviceProfile, Instance, Profile
from mig.planner.occupancy import Occupancy, budget_of
from mig.planner.search import placements

DeviceRequest = Profile | DeviceProfile
"""A requested device; a ``Profile`` is a device that has its GPU instance to itself."""

_Division = tuple[ComputePlace, ...]
_Narrow = Mapping[Profile, tuple[ComputeProfile, ...]]


def gpu_instances(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    """Return the GPU instances that contain the given devices, each once, in the devices' order."""
    return tuple(dict.fromkeys(instance.gpu_instance for instance in instances))


def device_of(entry: Instance | DeviceRequest) -> DeviceProfile:
    """Return the device profile of an instance or a request."""
    if isinstance(entry, Instance):
        return entry.device
    return DeviceProfile(entry) if isinstance(entry, Profile) else entry


def place_order(instance: Instance) -> tuple[int, int]:
    """Return a key that sorts devices by place.

    The key is the start of the device's GPU instance, then the device's first compute slice.
    """
    return instance.start, instance.compute_start or 0


def gpu_instances_for(
    have: Iterable[Instance], requests: Iterable[DeviceRequest]
) -> tuple[Profile, ...]:
    """Return the profiles of the GPU instances that must be added to ``have`` for the wanted
    devices.
    """
    whole, narrow = _partition(requests)
    return (*whole, *_additional(_divisions(have), narrow).elements())


def find_placements(
    board: Board, base: Sequence[Instance], requests: Iterable[DeviceRequest]
) -> Iterator[tuple[tuple[Instance, ...], Occupancy]]:
    """Yield every way to place all wanted devices beside the instances in ``base``.

    Each result has the placed devices and the occupancy of the board with them. The order is
    deterministic, and each set of placed instances is yielded once.
    """
    occupied = budget_of(board).total(base)
    whole, narrow = _partition(requests)
    divided = _divisions(base)
    new_counts = _additional(divided, narrow)
    for placed, total in placements(board, occupied, [*whole, *new_counts.elements()]):
        for devices in _divide(placed, new_counts, divided, tuple(narrow.items())):
            yield devices, total


def room_inside(instances: Iterable[Instance]) -> tuple[int, ...]:
    """Return how many more compute instances of each width fit into the divided GPU instances.

    A GPU instance is divided if it contains a narrower device. The result has one number for
    each width (number of compute slices), the widest first.
    """
    sums: Counter[int] = Counter()
    for gpu_instance, division in _divisions(instances).items():
        used_mask = _mask(division)
        for ci_profile in gpu_instance.profile.ci_profiles:
            sums[-ci_profile.compute_slices] += sum(
                not _bits(ci_profile, at) & used_mask for at in ci_profile.starts
            )
    return tuple(number for _, number in sorted(sums.items()))


def room_in_divided(instances: Iterable[Instance], device: DeviceProfile) -> int:
    """Return how many more devices with the profile ``device`` fit into divided GPU instances.

    The result is 0 if ``device`` is the profile of a whole GPU instance.
    """
    if device.compute is None:
        return 0
    divisions = _divisions(instances).items()
    masks = (
        _mask(division)
        for gpu_instance, division in divisions
        if gpu_instance.profile == device.profile
    )
    return sum(_most(mask, device.compute) for mask in masks)


def _most(used_mask: int, device: ComputeProfile) -> int:
    """Return how many devices fit into one GPU instance whose compute slices in ``used_mask`` are
    used.
    """
    numbers = range(device.max_count, 0, -1)
    return next((n for n in numbers if next(_fill((used_mask,), [(device, n)]), None)), 0)


def _partition(requests: Iterable[DeviceRequest]) -> tuple[list[Profile], _Narrow]:
    """Divide the wanted devices into whole GPU instances and narrower devices, by profile."""
    whole: list[Profile] = []
    narrow: dict[Profile, list[ComputeProfile]] = defaultdict(list)
    for device in map(device_of, requests):
        if device.compute is None:
            whole.append(device.profile)
        else:
            narrow[device.profile].append(device.compute)
    return whole, {profile: tuple(devices) for profile, devices in narrow.items()}


def _divisions(instances: Iterable[Instance]) -> dict[Instance, _Division]:
    """Return the divided GPU instances, each with the narrower devices in it."""
    divisions: dict[Instance, _Division] = {}
    for instance in instances:
        if instance.compute is not None:
            divisions[instance.gpu_instance] = (
                *divisions.get(instance.gpu_instance, ()),
                instance.compute,
            )
    return divisions


def _additional(divided: Mapping[Instance, _Division], narrow: _Narrow) -> Counter[Profile]:
    """Return how many GPU instances of each profile the narrow devices need in addition."""
    instance_counts: Counter[Profile] = Counter()
    for profile, devices in narrow.items():
        masks = [
            _mask(division)
            for gpu_instance, division in divided.items()
            if gpu_instance.profile == profile
        ]
        instance_counts[profile] = _fewest(tuple(masks), devices)
    return instance_counts


@lru_cache(maxsize=4096)
def _fewest(masks: tuple[int, ...], devices: tuple[ComputeProfile, ...]) -> int:
    """Return how many empty GPU instances the devices need besides the divided ones.

    ``masks`` has the used compute slices of each divided GPU instance.
    """
    number = 0
    while next(_fill((*masks, *[0] * number), _group(devices)), None) is None:
        number += 1
    return number


def _divide(
    placed: Sequence[Instance],
    new_counts: Mapping[Profile, int],
    divided: Mapping[Instance, _Division],
    narrow: Sequence[tuple[Profile, tuple[ComputeProfile, ...]]],
) -> Iterator[tuple[Instance, ...]]:
    """Yield every way to divide some of the placed GPU instances into ``narrow`` devices.

    ``new_counts`` is the number of instances of each profile to divide.
    """
    if not narrow:
        yield tuple(placed)
        return
    (profile, devices), *later = narrow
    other_instances = [instance for instance in placed if instance.profile != profile]
    own = [instance for instance in placed if instance.profile == profile]
    divided_instances = [instance for instance in divided if instance.profile == profile]
    for chosen in combinations(own, new_counts[profile]):
        whole = [instance for instance in own if instance not in chosen]
        bins = (*divided_instances, *chosen)
        masks = tuple(_mask(divided.get(instance, ())) for instance in bins)
        for filling in _fill(masks, _group(devices)):
            parts = [Instance(profile, bins[at].start, place) for at, place in filling]
            for later_devices in _divide(other_instances, new_counts, divided, later):
                yield (*parts, *whole, *later_devices)


def _group(devices: Iterable[ComputeProfile]) -> list[tuple[ComputeProfile, int]]:
    """Return each distinct device and its number, widest first."""
    ranked = sorted(devices, key=lambda device: -device.compute_slices)
    return [(device, sum(1 for _ in run)) for device, run in groupby(ranked)]


def _fill(
    masks: tuple[int, ...],
    groups: Sequence[tuple[ComputeProfile, int]],
    lowest: tuple[int, int] = (0, 0),
) -> Iterator[tuple[tuple[int, ComputePlace], ...]]:
    """Yield every way to place devices in GPU instances; used compute slices are bits of ``masks``.

    Equal devices are placed in rising order, so each set of places is yielded once.
    """
    if not groups:
        yield ()
        return
    (device, count), *later = groups
    remaining_groups = [(device, count - 1), *later] if count > 1 else later
    for at, mask in enumerate(masks):
        for start in device.starts:
            if (at, start) < lowest or _bits(device, start) & mask:
                continue
            filled = (*masks[:at], mask | _bits(device, start), *masks[at + 1 :])
            following = (at, start + 1) if count > 1 else (0, 0)
            for later_places in _fill(filled, remaining_groups, following):
                yield ((at, ComputePlace(device, start)), *later_places)


def _bits(device: ComputeProfile, start: int) -> int:
    return ((1 << device.compute_slices) - 1) << start


def _mask(division: Iterable[ComputePlace]) -> int:
    mask = 0
    for place in division:
        mask |= _bits(place.profile, place.start)
    return mask
