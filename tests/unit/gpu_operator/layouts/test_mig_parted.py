"""mig-parted's file: how it is parsed, what is rejected, and what the chart ships."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_operator.api import mig_parted, migparted_defaults
from gpu_operator.api.mig_parted import Entry, FormatError
from gpu_operator.controllers.layouts import targets
from gpu_operator.controllers.mig_config.plan import PlanError, make_groups
from mig import geometry

SHIPPED = Path(__file__).parents[4] / "charts" / "tessera" / "files" / "mig-config.yaml"

TEXT = """
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  custom:
    - device-filter: "0x233010DE"
      devices: [0, 1]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
    - device-filter: ["0x233010de", "0x20B210DE"]
      devices: [2]
      mig-enabled: true
      mig-devices: {"3g.40gb": 2, "1g.10gb+me": 0}
    - devices: [3]
      mig-enabled: true
      mig-devices: {}
"""


def test_a_file_is_read_as_mig_parted_reads_it() -> None:
    found = mig_parted.read(TEXT)
    h100, a100 = 0x2330_10DE, 0x20B2_10DE
    assert found == {
        "all-disabled": (Entry(False),),
        "custom": (
            Entry(True, (("1g.10gb", 7),), frozenset({0, 1}), frozenset({h100})),
            Entry(True, (("3g.40gb", 2),), frozenset({2}), frozenset({h100, a100})),
            Entry(True, (), frozenset({3})),
        ),
    }


def entry(**changes: Any) -> str:
    fields = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}
    changed = {k.replace("_", "-"): v for k, v in changes.items()}
    kept = {k: v for k, v in (fields | changed).items() if v != ...}
    return yaml.safe_dump({"version": "v1", "mig-configs": {"x": [kept]}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the document is not a mapping"),
        ("a: [", "not YAML"),
        ("[" * 60_000, "not YAML"),
        ("!!python/object/apply:os.system [x]", "not YAML"),
        ("x" * (65 << 10), "66560 characters"),
        ("version: v2\nmig-configs: {}", "version 'v2'"),
        ("version: v1", "mig-configs is not a mapping"),
        ("version: v1\nmig-configs: {x: []}", "mig-configs.x is not a list"),
        ("version: v1\nmig-configs: {1: []}", "1 is not a valid label value"),
        ("version: v1\nmig-configs: {x: [1]}", "mig-configs.x[0] is not a mapping"),
        (entry(mig_enabled="yes"), "mig-configs.x[0].mig-enabled is neither"),
        (entry(mig_enabled=False), "mig-devices is set, but mig-enabled is false"),
        (entry(devices=...), "mig-configs.x[0].devices is neither"),
        (entry(devices=[]), "devices is neither"),
        (entry(devices=["0"]), "'0' is not a GPU index"),
        (entry(devices=[-1]), "-1 is not a GPU index"),
        (entry(devices=[True]), "True is not a GPU index"),
        (entry(mig_devices={"1g.10gb": 65}), "65 is not a number from 0 to 64"),
        (entry(mig_devices={"1g.10gb": -1}), "-1 is not a number"),
        (entry(mig_devices={"1g.10gb": 1.5}), "1.5 is not a number"),
        (entry(mig_devices={1: 1}), "1 is not a profile name"),
        (entry(mig_devices={"x" * 64: 1}), "is not a profile name"),
        (entry(device_filter="H100"), "'H100' is not a PCI id"),
        (entry(device_filter=[{}]), "is not a PCI id"),
        (entry(device_filter=7), "device-filter is neither"),
        (entry(mig_device=1), "unknown field 'mig-device'"),
    ],
)
def test_an_error_names_its_position(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        mig_parted.read(text)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("number", ["0x" + "f" * 6000, "-0x" + "f" * 6000, "1:" * 6000 + "1"])
def test_a_number_too_long_for_python_is_an_ordinary_error(number: str) -> None:
    """Otherwise one ConfigMap would prevent the parsing of all others."""
    of_devices = (
        "version: v1\nmig-configs:\n  a:\n  - mig-enabled: true\n    mig-devices:\n      x: "
    )
    for text in (f"version: {number}", of_devices + number):
        read = mig_parted.read_config_map({"data": {mig_parted.KEY: text}})
        assert read is not None
        assert "a number too long to read" in read.problem


def test_aliases_cannot_expand_a_short_text() -> None:
    one = "{devices: all, mig-enabled: true}"
    many = f"&many [{', '.join([one] * 64)}]"
    names = "\n".join(f"  x{i}: *many" for i in range(1000))
    with pytest.raises(FormatError, match="64064 entries; the limit is 4096"):
        mig_parted.read(f"version: v1\nmig-configs:\n  first: {many}\n{names}")


def test_a_config_map_without_the_key_is_ignored() -> None:
    assert mig_parted.read_config_map({"metadata": {}, "data": {"other": "x"}}) is None
    assert mig_parted.read_config_map({"metadata": {}}) is None
    broken = mig_parted.read_config_map({"data": {"config.yaml": "a: ["}})
    assert broken is not None
    assert broken.problem.startswith("config.yaml: not YAML")


def test_gpus_that_get_the_same_are_one_group_and_later_entries_win() -> None:
    named = mig_parted.read(TEXT)
    found = make_groups(named, "custom", "h100-80gb", 8, "cm")
    assert [(group.indices, {r.profile: r.count for r in group.instances}) for group in found] == [
        ((0, 1), {"1g.10gb": 7}),
        ((2,), {"3g.40gb": 2}),
        ((3,), {}),
    ]
    both = {"x": (Entry(True, (("1g.10gb", 7),)), Entry(False, devices=frozenset({1})))}
    found = make_groups(both, "x", "h100-80gb", 2, "cm")
    assert [(g.indices, g.instances[0].profile) for g in found] == [
        ((0,), "1g.10gb"),
        ((1,), "whole"),
    ]


def test_a_missing_configuration_is_reported_with_the_existing_ones() -> None:
    named = mig_parted.read(TEXT)
    with pytest.raises(PlanError, match="cm has no configuration 'costum'; it has custom, all-dis"):
        make_groups(named, "costum", "h100-80gb", 1, "cm")
    with pytest.raises(
        PlanError, match=r"no entry for this node: 1 GPUs of board a30 \(0x20B710DE"
    ):
        make_groups({"x": named["custom"][:2]}, "x", "a30", 1, "cm")
    with pytest.raises(PlanError, match="cm has no configuration 'x'; it has none"):
        make_groups({}, "x", "a30", 1, "cm")


def test_the_chart_s_file_is_up_to_date() -> None:
    assert SHIPPED.read_text() == migparted_defaults.text(), (
        "run: python -m gpu_operator.api.migparted_defaults charts/tessera/files/mig-config.yaml"
    )


@pytest.mark.parametrize("board", sorted(geometry.BOARDS))
def test_the_chart_ships_what_nvidia_ships_for_every_board_and_it_fits(board: str) -> None:
    named = mig_parted.read(SHIPPED.read_text())
    there = geometry.board(board)
    names = {f"all-{p.resource_name.removeprefix('mig-')}" for p in there.profiles}
    for name in names | {"all-balanced", "all-disabled", "all-enabled"}:
        (group,) = make_groups(named, name, board, 2, "cm")
        assert group.indices == (0, 1)
        desired = targets.resolve_target(board, group.instances)
        assert not desired.problem, (name, desired.problem)
        for profile in there.profiles:
            if name == f"all-{profile.resource_name.removeprefix('mig-')}":
                assert len(desired.entries) == profile.max_count
    assert make_groups(named, "all-enabled", board, 1, "cm")[0].instances == ()


def test_compute_instance_profiles_are_accepted() -> None:
    named = mig_parted.read(entry(mig_devices={"1c.3g.40gb": 3, "4g.40gb": 1}))
    (group,) = make_groups(named, "x", "h100-80gb", 1, "cm")
    found = targets.resolve_target("h100-80gb", group.instances)
    assert [str(one) for one in found.entries] == ["1c.3g.40gb"] * 3 + ["4g.40gb"]
    too_many = mig_parted.read(entry(mig_devices={"1c.3g.40gb": 4, "4g.40gb": 1}))
    (group,) = make_groups(too_many, "x", "h100-80gb", 1, "cm")
    assert (
        "(GPU instances: 4g.40gb,2x3g.40gb)"
        in targets.resolve_target("h100-80gb", group.instances).problem
    )
