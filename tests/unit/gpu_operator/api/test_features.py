"""Labels as GPU Feature Discovery writes them, by strategy."""

import re

import pytest

from gpu_operator.render import features
from gpu_operator.render.features import Device, Sharing, Software, labels
from mig import geometry
from mig.errors import UnknownBoardError

SEVEN = Device("h100-80gb", profiles=("1g.10gb",) * 7)
EMPTY = Device("h100-80gb")
OFF = Device("h100-80gb", mig_enabled=False)
PRODUCT = "NVIDIA-H100-80GB-HBM3"
ONE_G = {
    "memory": "9984",
    "multiprocessors": "16",
    "slices.gi": "1",
    "slices.ci": "1",
    "engines.copy": "1",
    "engines.decoder": "1",
    "engines.encoder": "0",
    "engines.jpeg": "1",
    "engines.ofa": "0",
    "replicas": "1",
    "sharing-strategy": "none",
    "product": f"{PRODUCT}-MIG-1g.10gb",
}


def of(found: dict[str, str], resource: str) -> dict[str, str]:
    return {
        name.removeprefix(f"{resource}."): value
        for name, value in found.items()
        if name.startswith(f"{resource}.")
    }


def test_labels_that_do_not_depend_on_the_strategy() -> None:
    found = labels([SEVEN, SEVEN], "mixed", Software("580.65.06", "13.0", "Standard PC (Q35)"))
    assert (
        found.items()
        >= {
            "gpu.present": "true",
            "gpu.machine": "unknown",  # "Standard-PC-(Q35)" is not a valid label value
            "gpu.family": "hopper",
            "gpu.count": "2",
            "gpu.product": PRODUCT,
            "gpu.memory": "81559",
            "gpu.replicas": "0",  # no GPU is offered as a whole
            "gpu.sharing-strategy": "none",
            "gpu.mode": "compute",
            "gpu.compute.major": "9",
            "gpu.compute.minor": "0",
            "mig.capable": "true",
            "mig.strategy": "mixed",
            "mps.capable": "false",
            "vgpu.present": "false",
            "cuda.driver-version.full": "580.65.06",
            "cuda.driver-version.major": "580",
            "cuda.driver-version.minor": "65",
            "cuda.driver-version.revision": "06",
            "cuda.runtime-version.full": "13.0",
            "cuda.runtime-version.major": "13",
            "cuda.runtime-version.minor": "0",
            "cuda.driver.major": "580",
            "cuda.driver.minor": "65",
            "cuda.driver.rev": "06",
            "cuda.runtime.major": "13",
            "cuda.runtime.minor": "0",
        }.items()
    )
    assert labels([SEVEN], "mixed", Software(machine="Google Compute"))["gpu.machine"] == (
        "Google-Compute"
    )


def test_mixed_labels_each_profile_and_the_gpus() -> None:
    found = labels([SEVEN, Device("h100-80gb", profiles=("3g.40gb", "1g.10gb+me"))], "mixed")
    assert of(found, "mig-1g.10gb") == ONE_G | {"count": "7"} | {
        # labels of "mig-1g.10gb.me", whose names begin with "mig-1g.10gb.", too
        f"me.{name}": value
        for name, value in of(found, "mig-1g.10gb.me").items()
    }
    assert of(found, "mig-1g.10gb.me")["product"] == f"{PRODUCT}-MIG-1g.10gb.me"
    assert of(found, "mig-1g.10gb.me")["engines.ofa"] == "1"
    assert of(found, "mig-3g.40gb")["count"] == "1"
    assert of(found, "mig-3g.40gb")["multiprocessors"] == "60"
    assert found["gpu.product"] == PRODUCT


def test_single_labels_slices_as_gpus() -> None:
    found = labels([SEVEN, SEVEN], "single")
    assert of(found, "gpu").items() >= (ONE_G | {"count": "14"}).items()
    assert not any(name.startswith("mig-") for name in found)


@pytest.mark.parametrize(
    "devices",
    [
        [SEVEN, EMPTY],
        [SEVEN, OFF],
        [SEVEN, Device("h100-80gb", profiles=("3g.40gb",))],
        [Device("h100-80gb", profiles=("1g.10gb", "2g.20gb"))],
        [EMPTY],
    ],
)
def test_single_reports_nodes_with_mixed_profiles(devices: list[Device]) -> None:
    found = labels(devices, "single")
    assert (
        of(found, "gpu").items()
        >= {
            "product": f"{PRODUCT}-MIG-INVALID",
            "count": "0",
            "replicas": "0",
            "memory": "0",
            "sharing-strategy": "",
        }.items()
    )


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_whole_gpus_are_labelled_as_such(strategy: str) -> None:
    found = labels([OFF, OFF], strategy)
    assert (found["gpu.product"], found["gpu.count"], found["gpu.replicas"]) == (PRODUCT, "2", "1")
    assert "gpu.slices.gi" not in found


def test_strategy_none_labels_no_slices() -> None:
    found = labels([SEVEN], "none")
    assert "mig.strategy" not in found
    assert not any(name.startswith("mig-") for name in found)
    assert (found["gpu.count"], found["gpu.product"]) == ("1", PRODUCT)


def test_shared_resources_have_a_suffix_unless_renamed() -> None:
    shared = Sharing(4, "time-slicing")
    found = labels([OFF], "mixed", sharing={"gpu": shared})
    assert (found["gpu.product"], found["gpu.replicas"]) == (f"{PRODUCT}-SHARED", "4")
    assert found["gpu.sharing-strategy"] == "time-slicing"
    renamed = labels([OFF], "mixed", sharing={"gpu": Sharing(4, "mps", renamed=True)})
    assert (renamed["gpu.product"], renamed["gpu.replicas"]) == (PRODUCT, "4")
    found = labels([SEVEN], "mixed", sharing={"mig-1g.10gb": shared})
    assert found["mig-1g.10gb.product"] == f"{PRODUCT}-MIG-1g.10gb-SHARED"
    assert labels([SEVEN], "single", sharing={"gpu": shared})["gpu.product"].endswith("-SHARED")


@pytest.mark.parametrize("board", sorted(geometry.BOARDS))
def test_every_board_s_labels_are_valid_and_recognized(board: str) -> None:
    for profile in geometry.board(board).profiles:
        for strategy in ("mixed", "single"):
            shared = dict.fromkeys(("gpu", profile.resource_name), Sharing(2, "mps"))
            found = labels([Device(board, True, (profile.name,))], strategy, sharing=shared)
            for name, value in found.items():
                assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value), value
                assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", name), name
                assert features.is_ours(name), name


@pytest.mark.parametrize(
    "name",
    ["mig.config", "gpu.deploy.driver", "gpu.clique", "mig-1g.10gb", "mine", "gpu.product.x"],
)
def test_labels_of_others_are_not_recognized(name: str) -> None:
    assert not features.is_ours(name)


def test_values_from_agents_are_validated() -> None:
    odd = Device("h100-80gb", profiles=("evil/../label", "1g.10gb"))
    found = labels([odd], "mixed", Software("13; rm", "x.y", "a" * 64))
    assert found["mig-1g.10gb.count"] == "1"
    assert not any("evil" in name or "cuda" in name for name in found)
    assert found["gpu.machine"] == "unknown"


def test_an_unknown_board_is_an_error() -> None:
    with pytest.raises(UnknownBoardError):
        labels([Device("h1000")], "mixed")
    assert labels([], "mixed") == {}


def test_a_part_of_a_gpu_instance_is_labelled_with_its_own_sms_and_the_memory_that_it_shares() -> (
    None
):
    divided = Device("h100-80gb", profiles=("1c.3g.40gb",) * 3)
    expected = {
        "count": "3",
        "product": f"{PRODUCT}-MIG-1c.3g.40gb",
        "memory": "40448",
        "multiprocessors": "16",
        "slices.gi": "3",
        "slices.ci": "1",
        "engines.copy": "3",
    }
    mixed = labels([divided], "mixed")
    assert of(mixed, "mig-1c.3g.40gb").items() >= expected.items()
    assert all(map(features.is_ours, mixed))
    assert of(labels([divided], "single"), "gpu").items() >= expected.items()
    uneven = Device("h100-80gb", profiles=("1c.3g.40gb", "2c.3g.40gb"))
    assert of(labels([uneven], "single"), "gpu")["product"].endswith("MIG-INVALID")
