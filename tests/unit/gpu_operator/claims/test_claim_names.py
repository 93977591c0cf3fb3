"""Names of devices in claims: names and devices correspond one to one."""

import pytest

from gpu_operator.api import claim_devices
from gpu_operator.api.claim_devices import Device

NAMES = {
    "gpu-0": Device(0),
    "gpu-99": Device(99),
    "gpu-0-mig-1g10gb-0": Device(0, "1g.10gb", 0),
    "gpu-7-mig-1g10gb-me-6": Device(7, "1g.10gb+me", 6),
    "gpu-10-mig-7g80gb-0": Device(10, "7g.80gb", 0),
    "gpu-0-mig-1g24gb-nome-9": Device(0, "1g.24gb-me", 9),
    "gpu-0-mig-2g48gb-gfx-6": Device(0, "2g.48gb+gfx", 6),
    "gpu-0-mig-2g48gb-meall-0": Device(0, "2g.48gb+me.all", 0),
    "gpu-0-mig-1g9999gb-99": Device(0, "1g.9999gb", 99),
}


@pytest.mark.parametrize(("name", "device"), NAMES.items())
def test_a_name_is_parsed_as_the_device_that_has_it(name: str, device: Device) -> None:
    assert claim_devices.parse(name) == device
    assert device.name == str(device) == name
    assert device.is_whole is ("mig" not in name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "gpu", "gpu-", "gpu-00", "gpu-100", "gpu-0-mig", "gpu-0-mig-1g10gb", "GPU-0"),
        *("gpu-0-mig-0g10gb-0", "gpu-0-mig-1g10000gb-0", "gpu-0-mig-1g010gb-0"),
        *("gpu-0-mig-1g10gb-100", "gpu-0-mig-1g10gb-00", "gpu-0-mig-1g10gb-xx-0"),
        *("gpu-0-mig-1g10gb-0 ", "gpu-0\n", "gpu-\u0661", "gpu-0-mig-1g.10gb-0"),
    ],
)
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"not a device of gpu\.tessera\.dev"):
        claim_devices.parse(name)


@pytest.mark.parametrize("profile", ["", "1g", "1g.10gb+xx", "0g.10gb", "1g.10gb ", "1c.3g.40gb"])
def test_a_profile_without_a_name_is_refused(profile: str) -> None:
    with pytest.raises(ValueError, match="not a MIG profile"):
        _ = Device(0, profile, 0).name
