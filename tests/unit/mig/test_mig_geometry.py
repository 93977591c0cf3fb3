"""The boards' tables: names, placements, engines, memory and compute instances."""

from dataclasses import replace

import pytest

from boards import RECORDS, a30
from mig import geometry
from mig.errors import IllegalLayoutError, UnknownBoardError, UnknownProfileError
from mig.geometry import BOARDS, MIB, Instance, Provenance, naming
from mig.geometry.rows import build

EVERY_PROFILE = [
    pytest.param(board, profile, id=f"{board.key}-{profile.name}")
    for board in BOARDS.values()
    for profile in board.profiles
]

# Names as drivers and the vendor's guide write them, typed in by hand.
NAMES = {
    "a30": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    "a100-40gb": "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-nvl": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "h200": "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "b200": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "rtx-pro-6000": "1g.24gb 1g.24gb+me 1g.24gb+gfx 1g.24gb+me.all 1g.24gb-me "
    "2g.48gb 2g.48gb+gfx 2g.48gb+me.all 2g.48gb-me 4g.96gb 4g.96gb+gfx",
}

# GiB as `nvidia-smi mig -lgip` prints them (two decimals), in the order of the names above.
PRINTED_GIB = {
    "a30": "5.81 5.81 11.69 11.69 23.44",
    "a100-40gb": "4.75 4.75 9.62 9.62 19.50 19.50 39.25",
    "a100-80gb": "9.50 9.50 19.50 19.50 39.25 39.25 78.75",
    "h100-80gb": "9.75 9.75 19.62 19.62 39.50 39.50 79.25",
    "h100-nvl": "10.75 10.75 21.62 21.62 46.38 46.38 93.12",
    "h200": "16.00 16.00 32.25 32.25 69.50 69.50 140.00",
    "b200": "22.00 22.00 44.25 44.25 89.00 89.00 178.00",
    "rtx-pro-6000": "23.62 23.62 23.62 23.62 23.62 47.38 47.38 47.38 47.38 95.00 95.00",
}

COMPUTE_CAPABILITY = {
    "a30": (8, 0),
    "a100-40gb": (8, 0),
    "a100-80gb": (8, 0),
    "h100-80gb": (9, 0),
    "h100-nvl": (9, 0),
    "h200": (9, 0),
    "b200": (10, 0),
    "rtx-pro-6000": (12, 0),
}

EIGHT_UNIT_BOARDS = ("a100-40gb", "a100-80gb", "h100-80gb", "h100-nvl", "h200", "b200")
EIGHT_UNIT_PLACEMENTS = {
    19: "{0,1,2,3,4,5,6}:1",
    20: "{0,1,2,3,4,5,6}:1",
    15: "{0,2,4,6}:2",
    14: "{0,2,4}:2",
    9: "{0,4}:4",
    5: "{0}:4",
    0: "{0}:8",
}


def lgipp(profile):
    return f"{{{','.join(map(str, profile.starts))}}}:{profile.size}"


def test_every_record_of_a_device_is_a_board():
    assert list(BOARDS) == list(NAMES)
    assert list(BOARDS) == [key for key, record in RECORDS.items() if record.device is not None]


@pytest.mark.parametrize("key", NAMES)
def test_names_follow_from_bytes(key):
    assert [p.name for p in BOARDS[key].profiles] == NAMES[key].split()


@pytest.mark.parametrize("key", NAMES)
def test_memory_equals_the_driver_s_output(key):
    printed = [f"{p.memory_bytes / geometry.GIB:.2f}" for p in BOARDS[key].profiles]
    assert printed == PRINTED_GIB[key].split()


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_other_drivers_figures_give_the_same_name(board, profile):
    for other in profile.other_memory_bytes:
        name = naming.profile_name(
            profile.compute_slices, other, board.memory_bytes, profile.attribute
        )
        assert name == profile.name


@pytest.mark.parametrize("key", COMPUTE_CAPABILITY)
def test_compute_capability(key):
    assert BOARDS[key].compute_capability == COMPUTE_CAPABILITY[key]


@pytest.mark.parametrize("key", EIGHT_UNIT_BOARDS)
def test_eight_unit_boards_share_ids_and_placements(key):
    board = BOARDS[key]
    assert {p.driver_id: lgipp(p) for p in board.profiles} == EIGHT_UNIT_PLACEMENTS
    assert [p.max_count for p in board.profiles] == [7, 1, 4, 3, 2, 1, 1]
    assert [int(p.nvml_gi_enum) for p in board.profiles] == [0, 7, 9, 1, 2, 3, 4]
    assert (board.placement_units, board.compute_slices) == (8, 7)


def test_a30_placements():
    assert {p.name: (p.driver_id, lgipp(p), p.max_count) for p in BOARDS["a30"].profiles} == {
        "1g.6gb": (14, "{0,1,2,3}:1", 4),
        "1g.6gb+me": (21, "{0,1,2,3}:1", 1),
        "2g.12gb": (5, "{0,2}:2", 2),
        "2g.12gb+me": (6, "{0,2}:2", 1),
        "4g.24gb": (0, "{0}:4", 1),
    }


def test_rtx_pro_6000_ids_and_placements():
    board = BOARDS["rtx-pro-6000"]
    assert {p.name: (p.driver_id, int(p.nvml_gi_enum), lgipp(p)) for p in board.profiles} == {
        "1g.24gb": (14, 0, "{0,3,6,9}:3"),
        "1g.24gb+me": (21, 7, "{0,3,6,9}:3"),
        "1g.24gb+gfx": (47, 10, "{0,3,6,9}:3"),
        "1g.24gb+me.all": (65, 15, "{0,3,6,9}:3"),
        "1g.24gb-me": (67, 13, "{0,3,6,9}:3"),
        "2g.48gb": (5, 1, "{0,6}:6"),
        "2g.48gb+gfx": (35, 11, "{0,6}:6"),
        "2g.48gb+me.all": (64, 16, "{0,6}:6"),
        "2g.48gb-me": (66, 14, "{0,6}:6"),
        "4g.96gb": (0, 3, "{0}:12"),
        "4g.96gb+gfx": (32, 12, "{0}:12"),
    }


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_a_profile_is_part_of_its_board(board, profile):
    assert profile.memory_bytes < board.memory_bytes
    assert profile.sm_count <= board.sm_count
    assert profile.engines.within(board.engines)
    assert profile.compute_slices <= board.compute_slices
    assert len(profile.placements) >= profile.max_count
    for placement in profile.placements:
        assert placement.start >= 0
        assert placement.end <= board.placement_units


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_every_spelling_finds_the_profile(board, profile):
    dotted = profile.resource_name.removeprefix("mig-")
    for name in (profile.name, dotted, *profile.aliases):
        assert board.profile(name) is profile


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_names_parse_back(board, profile):
    parsed = naming.parse_name(profile.name)
    assert parsed is not None
    assert parsed.gpu_slices == parsed.compute_slices == profile.compute_slices
    assert parsed.attribute == profile.attribute


@pytest.mark.parametrize("key", NAMES)
def test_names_and_resources_are_unique_on_a_board(key):
    board = BOARDS[key]
    for attribute in ("name", "resource_name", "driver_id", "nvml_gi_enum"):
        values = [getattr(p, attribute) for p in board.profiles]
        assert len(set(values)) == len(values)


def test_resource_names_replace_plus_and_keep_minus():
    board = BOARDS["rtx-pro-6000"]
    assert board.profile("1g.24gb+me.all").resource_name == "mig-1g.24gb.me.all"
    assert board.profile("1g.24gb-me").resource_name == "mig-1g.24gb-me"
    assert naming.resource_name("1g.6gb+gfx,me") == "mig-1g.6gb.gfx.me"


def test_a100_keeps_the_older_rounding_as_alias():
    assert BOARDS["a100-80gb"].profile("7g.79gb").name == "7g.80gb"


def test_unknown_board_names_the_known_ones():
    with pytest.raises(UnknownBoardError, match=r"no board 'zzz' \(known: a30, a100-"):
        geometry.board("zzz")


def test_unknown_profile_names_the_legal_ones():
    with pytest.raises(UnknownProfileError, match=r"a30 has no profile '3g.12gb'; legal.*4g.24gb"):
        geometry.board("a30").profile("3g.12gb")


def test_values_print_as_users_write_them():
    board = geometry.board("h100-80gb")
    profile = board.profile("3g.40gb")
    assert (str(board), str(profile), str(Instance(profile, 4))) == (
        "h100-80gb",
        "3g.40gb",
        "3g.40gb@4",
    )


def test_boards_cannot_be_changed():
    with pytest.raises(TypeError):
        BOARDS["a30"] = BOARDS["h200"]
    with pytest.raises(AttributeError):
        BOARDS["a30"].sm_count = 1


def test_instance_refuses_a_start_it_cannot_have():
    profile = geometry.board("h100-80gb").profile("2g.20gb")
    with pytest.raises(IllegalLayoutError, match=r"2g.20gb cannot start at 6; legal starts: 0, 2"):
        Instance(profile, 6)


@pytest.mark.parametrize(
    ("key", "gi", "expected"),
    [
        ("h100-80gb", "1g.10gb", [("1g.10gb", 0, (0,), 16)]),
        ("h100-80gb", "1g.20gb", [("1g.20gb", 0, (0,), 26)]),
        (
            "h100-80gb",
            "3g.40gb",
            [
                ("1c.3g.40gb", 0, (0, 1, 2), 16),
                ("2c.3g.40gb", 1, (0,), 32),
                ("3g.40gb", 2, (0,), 60),
            ],
        ),
        (
            "a100-40gb",
            "4g.20gb",
            [
                ("1c.4g.20gb", 0, (0, 1, 2, 3), 14),
                ("2c.4g.20gb", 1, (0, 2), 28),
                ("4g.20gb", 3, (0,), 56),
            ],
        ),
        (
            "b200",
            "7g.180gb",
            [
                ("1c.7g.180gb", 0, (0, 1, 2, 3, 4, 5, 6), 18),
                ("2c.7g.180gb", 1, (0, 2, 4), 36),
                ("3c.7g.180gb", 2, (0, 4), 54),
                ("4c.7g.180gb", 3, (0,), 72),
                ("7g.180gb", 4, (0,), 148),
            ],
        ),
        (
            "rtx-pro-6000",
            "2g.48gb",
            [("1c.2g.48gb", 0, (0, 1), 46), ("2g.48gb", 1, (0,), 94)],
        ),
    ],
)
def test_compute_instance_profiles(key, gi, expected):
    profiles = geometry.board(key).profile(gi).ci_profiles
    assert [(c.name, c.driver_id, c.starts, c.sm_count) for c in profiles] == expected
    assert [c.max_count for c in profiles] == [len(starts) for _, _, starts, _ in expected]


@pytest.mark.parametrize(("board", "profile"), EVERY_PROFILE)
def test_compute_instances_fit_their_gpu_instance(board, profile):
    for ci in profile.ci_profiles:
        assert all(start + ci.compute_slices <= profile.compute_slices for start in ci.starts)
        assert ci.sm_count * ci.max_count <= profile.sm_count
        assert ci.is_full or ci.provenance in (Provenance.DERIVED, Provenance.HARDWARE)


def test_a_record_without_the_whole_gpu_is_refused():
    geometry = a30.RECORD.device.geometry
    with pytest.raises(ValueError, match="record a30 has no row for the whole GPU"):
        build(a30.RECORD, replace(geometry, rows=geometry.rows[:-1]))


# Board totals in MiB, and the names' figures for 1, 2, 4 and 8 eighths as the vendor writes them.
# Only the total's whole GiB matter, so an estimate suffices where no exact total is known (GH200,
# early GB200). Most of these products are not simulated: only the naming rule is tested.
NAME_ZOO = [
    ("GH200 96GB", 97871, "12 24 48 96"),
    ("GH200 144GB", 147112, "18 36 72 144"),
    ("GB200 early", 193536, "24 47 95 189"),
    ("GB200", 189471, "23 47 93 186"),
    ("B300", 275040, "34 67 135 269"),
    ("GB300", 284208, "35 70 139 278"),
    ("H200", 143771, "18 35 71 141"),
]


@pytest.mark.parametrize(("product", "total_mib", "names"), NAME_ZOO)
def test_the_rule_gives_the_vendors_names(product, total_mib, names):
    total = total_mib * MIB
    # A little less than the exact share, as the driver keeps some back.
    derived = [naming.memory_gb(total * eighths // 8 - MIB, total) for eighths in (1, 2, 4, 8)]
    assert derived == [int(name) for name in names.split()]


@pytest.mark.parametrize(("instance", "board"), [(0, 8), (-1, 8), (9, 8)])
def test_memory_that_is_no_share_is_refused(instance, board):
    with pytest.raises(
        ValueError, match=f"an instance must have 1 to .* bytes of memory, not {instance}"
    ):
        naming.memory_gb(instance, board)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("1c.3g.40gb", (1, 3, 40, "")),
        ("1g.24gb+me.all", (1, 1, 24, "+me.all")),
        ("1g.0gb+gfx,me", (1, 1, 0, "+gfx,me")),
        ("2g.48gb-me", (2, 2, 48, "-me")),
    ],
)
def test_name_grammar(name, parts):
    parsed = naming.parse_name(name)
    assert parsed is not None
    assert (
        parsed.compute_slices,
        parsed.gpu_slices,
        parsed.memory_gb,
        parsed.attribute,
    ) == parts


@pytest.mark.parametrize(
    "name",
    ["", "1g", "g.5gb", "0g.5gb", "4c.3g.40gb", "1g.05gb", "1g.5gb+me-me", "1g.5gb ", "١g.5gb"],
)
def test_invalid_names(name):
    assert naming.parse_name(name) is None


@pytest.mark.parametrize("board", BOARDS.values(), ids=str)
def test_a_whole_gpu_is_one_more_shape_that_no_list_of_profiles_has(board):
    whole = board.profile("whole")
    assert whole is board.whole
    assert whole.is_whole
    assert whole not in board.profiles
    assert not any(p.is_whole for p in board.profiles)
    assert (whole.resource_name, whole.name) == ("gpu", geometry.WHOLE)
    assert (whole.memory_bytes, whole.sm_count) == (board.memory_bytes, board.sm_count)
    assert [(p.start, p.size) for p in whole.placements] == [(0, board.placement_units)]
    assert all(whole.memory_bytes >= p.memory_bytes for p in board.profiles)
    assert (whole.driver_id, whole.nvml_gi_enum, whole.ci_profiles) == (None, None, ())
