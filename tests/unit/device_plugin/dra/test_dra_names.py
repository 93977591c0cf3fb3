"""Names of devices in ResourceSlices: DNS labels, and one for each profile at each place."""

import re

import pytest

from gpu_operator.api.claim_devices import Device, parse
from mig import geometry

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)  # RFC 1123


def test_every_profile_at_every_place_has_a_name_of_its_own_that_reads_back() -> None:
    for board in geometry.BOARDS.values():
        devices = [Device(7)] + [
            Device(7, profile.name, start) for profile in board.profiles for start in profile.starts
        ]
        names = [device.name for device in devices]
        assert len(set(names)) == len(names)
        assert all(_LABEL.fullmatch(name) for name in names)
        assert [parse(name) for name in names] == devices


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (Device(0), "gpu-0"),
        (Device(0, "1g.10gb", 3), "gpu-0-mig-1g10gb-3"),
        (Device(1, "1g.24gb+me", 9), "gpu-1-mig-1g24gb-me-9"),
        (Device(1, "1g.24gb-me", 9), "gpu-1-mig-1g24gb-nome-9"),
        (Device(1, "1g.24gb+me.all", 0), "gpu-1-mig-1g24gb-meall-0"),
    ],
)
def test_names_are_as_documented(device: Device, name: str) -> None:
    assert device.name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpu-",
        "gpu-00",
        "gpu-0-mig-1g10gb",
        "gpu-0-mig-1g10gb-+me-3",
        "gpu-0-mig-1g10gb-you-3",
        "gpu-0-mig-1g10gb-3\n",
        "gpu-0-mig-1g10gb-٣",
        "../gpu-0",
    ],
)
def test_foreign_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a device"):
        parse(name)
