"""Compute instances narrower than their GPU instance: names, places, and which can coexist."""

from itertools import combinations

import pytest

from mig import geometry, spec
from mig.errors import IllegalLayoutError, SpecError, UnknownProfileError
from mig.geometry import BOARDS, Board, ComputePlace, DeviceProfile, Instance, Profile
from mig.geometry.compute import _STARTS
from mig.planner import rules

H100 = geometry.board("h100-80gb")
RTX = geometry.board("rtx-pro-6000")
EVERY_PROFILE = [
    pytest.param(board, profile, id=f"{board.key}-{profile.name}")
    for board in BOARDS.values()
    for profile in board.profiles
]


def by_brute_force(gi_slices: int) -> set[frozenset[tuple[int, int]]]:
    """Return every set of (slices, start) whose compute slices do not overlap."""
    places = [(width, start) for width, starts in _STARTS[gi_slices].items() for start in starts]
    slices = {place: frozenset(range(place[1], sum(place))) for place in places}
    found, last = {frozenset[tuple[int, int]]()}, [frozenset[tuple[int, int]]()]
    while last:
        last = [
            one | {place}
            for one in last
            for place in places
            if place > max(one, default=(0, -1)) and all(not slices[place] & slices[p] for p in one)
        ]
        found.update(last)
    return found


def accepted_layouts(board: Board, profile: Profile) -> set[frozenset[tuple[int, int]]]:
    """Return every set of compute instances in one GPU instance that the rules accept."""
    start = profile.starts[-1]
    every = [
        Instance(profile, start, None if one.is_full else ComputePlace(one, inner))
        for one in profile.ci_profiles
        for inner in one.starts
    ]
    found, last = [()], [()]
    while last:
        last = [
            (*before, new)
            for before in last
            for new in every[every.index(before[-1]) + 1 if before else 0 :]
            if not rules.violations(board, (*before, new))
        ]
        found += last
    return {
        frozenset((one.device.compute_slices, one.compute_start or 0) for one in layout)
        for layout in found
    }


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_the_layouts_that_are_accepted_are_those_by_brute_force(board, profile):
    assert accepted_layouts(board, profile) == by_brute_force(profile.compute_slices)


def test_brute_force_agrees_with_a_manual_count():
    """3g: nothing; 3c alone; 2c@0 with or without 1c@2; any of three 1c."""
    assert len(by_brute_force(3)) == 1 + 1 + 2 + 7


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_every_device_is_found_by_its_name_and_at_its_place(board, profile):
    for device in (one for one in board.device_profiles if one.profile is profile):
        assert board.device_profile(device.name) == device
        assert board.device_profile(device.resource_name.removeprefix("mig-")) == device
        for alias in profile.aliases:
            prefix = device.name[: -len(profile.name)]
            assert board.device_profile(prefix + alias) == device
        for place in device.places:
            assert board.instance(device.name, place.start, place.compute_start) == place
            assert spec.parse_instance(board, str(place)) == place
            (named,) = spec.parse_places(str(place))
            assert named == (device.name, place.start, place.compute_start)
            assert str(named) == spec.format_places([named]) == str(place)


def test_names_and_resources_of_a_device():
    device = H100.device_profile("1c.3g.40gb")
    assert (device.name, device.resource_name) == ("1c.3g.40gb", "mig-1c.3g.40gb")
    assert (device.compute_slices, device.sm_count) == (1, 16)
    assert device.profile is H100.profile("3g.40gb")
    assert list(map(str, device.places))[:4] == [
        "1c.3g.40gb@0.0",
        "1c.3g.40gb@0.1",
        "1c.3g.40gb@0.2",
        "1c.3g.40gb@4.0",
    ]
    assert H100.device_profile("3g.40gb") == DeviceProfile(H100.profile("3g.40gb"))
    assert RTX.device_profile("1c.2g.48gb+gfx").resource_name == "mig-1c.2g.48gb.gfx"
    assert RTX.device_profile("1c.2g.48gb.me.all").profile is RTX.profile("2g.48gb+me.all")
    assert H100.device_profile("2c.7g.79gb").name == "2c.7g.80gb"


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("3c.3g.40gb", "1c.3g.40gb, 2c.3g.40gb, 3g.40gb"),
        ("1c.1g.10gb", "1g.10gb"),
        ("1c.9g.90gb", "1g.10gb, "),
    ],
)
def test_a_profile_that_lcip_does_not_list_is_no_device(name, legal):
    with pytest.raises(UnknownProfileError, match=f"'{name}'; legal profiles: {legal}"):
        H100.device_profile(name)


def test_one_of_full_width_is_written_as_its_gpu_instance():
    full = next(one for one in H100.profile("3g.40gb").ci_profiles if one.is_full)
    with pytest.raises(IllegalLayoutError, match=r"has 1c\.3g\.40gb, 2c\.3g\.40gb"):
        Instance(H100.profile("3g.40gb"), 0, ComputePlace(full, 0))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1c.3g.40gb@4.3", "cannot start at 3; legal starts on h100-80gb: 0, 1, 2"),
        ("2c.3g.40gb@4.1", "cannot start at 1; legal starts on h100-80gb: 0"),
        ("1c.3g.40gb@1.0", "3g.40gb cannot start at 1; legal starts on h100-80gb: 0, 4"),
        ("1c.3g.40gb@4", "no place in its GPU instance; write 1c.3g.40gb@4.0"),
        ("3g.40gb@4.0", "no place 0 in it; write 3g.40gb@4"),
        ("1c.3g.40gb", "no start; write 1c.3g.40gb@START.COMPUTE_SLICE"),
    ],
)
def test_a_place_that_is_none_is_refused_by_name(text, says):
    with pytest.raises(SpecError) as refused:
        spec.parse_instance(H100, text)
    assert says in str(refused.value)


def test_narrow_devices_are_requested_like_gpu_instances():
    text = "2x1c.3g.40gb,1g.10gb"
    devices = spec.parse_requests(H100, text)
    assert [device.sm_count for device in devices] == [16, 16, H100.profile("1g.10gb").sm_count]
    assert spec.format_requests(devices) == text


def test_devices_in_one_gpu_instance_count_once():
    """The GPU instance's compute slices, engines and maximum count are used once."""
    seven = H100.device_profile("1c.7g.80gb").places
    assert not rules.violations(H100, seven)
    four, others = H100.device_profile("2c.4g.40gb").places, H100.device_profile("1c.3g.40gb")
    assert not rules.violations(H100, [*four, *others.places[3:]])
    (why,) = rules.violations(H100, [others.places[3], H100.instance("3g.40gb", 4)])
    assert why.message == "1c.3g.40gb@4.0 overlaps 3g.40gb@4"
    assert all(not one.overlaps(other) for one, other in combinations(seven, 2))
    (why,) = rules.violations(H100, [others.places[0], H100.instance("1g.10gb", 3)])
    assert why.message == "1c.3g.40gb@0.0 overlaps 1g.10gb@3"


def test_every_attribute_s_profile_has_the_names_and_numbers_of_nvml():
    """ "+me" on all, "+gfx", "+me.all" and "-me" where the board has graphics (nvml.h)."""
    numbers = {(p.name.split(".")[0], p.attribute): p.nvml_gi_enum.name for p in RTX.profiles}
    assert numbers == {
        ("1g", ""): "SLICE_1",
        ("1g", "+me"): "SLICE_1_REV1",
        ("1g", "+gfx"): "SLICE_1_GFX",
        ("1g", "+me.all"): "SLICE_1_ALL_ME",
        ("1g", "-me"): "SLICE_1_NO_ME",
        ("2g", ""): "SLICE_2",
        ("2g", "+gfx"): "SLICE_2_GFX",
        ("2g", "+me.all"): "SLICE_2_ALL_ME",
        ("2g", "-me"): "SLICE_2_NO_ME",
        ("4g", ""): "SLICE_4",
        ("4g", "+gfx"): "SLICE_4_GFX",
    }


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_a_narrower_one_has_the_sms_of_a_plain_slice_for_each_of_its_own(board, profile):
    plain = next(one for one in board.profiles if one.compute_slices == 1 and one.is_classic)
    for one in profile.ci_profiles:
        assert one.is_full or one.sm_count == one.compute_slices * plain.sm_count
